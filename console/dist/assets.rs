// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-DQozKPuA.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "375f6951fd119ebe0f25d26e60815e48",
        content: include_bytes!("assets/index-DQozKPuA.js"),
        brotli: include_bytes!("assets/index-DQozKPuA.js.br"),
    },
    Asset {
        path: "/assets/index-bTdfzy3M.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "ca0de27218e8ee4c7f3680bd935ac8ca",
        content: include_bytes!("assets/index-bTdfzy3M.css"),
        brotli: include_bytes!("assets/index-bTdfzy3M.css.br"),
    },
    Asset {
        path: "/favicon.svg",
        media_type: "image/svg+xml",
        is_immutable: false,
        hash: "ba5deff441b5bab834d56c91568f37d3",
        content: include_bytes!("favicon.svg"),
        brotli: include_bytes!("favicon.svg.br"),
    },
    Asset {
        path: "/",
        media_type: "text/html; charset=utf-8",
        is_immutable: false,
        hash: "21b5fa9473071658e4ebf47ec29361eb",
        content: include_bytes!("index.html"),
        brotli: include_bytes!("index.html.br"),
    },
    Asset {
        path: "/licenses.txt",
        media_type: "text/plain; charset=utf-8",
        is_immutable: false,
        hash: "70a39307f2f6b96b735255f0d5f5371e",
        content: include_bytes!("licenses.txt"),
        brotli: include_bytes!("licenses.txt.br"),
    },
]
