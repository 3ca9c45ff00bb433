// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-B9B1qRKY.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "58d1bb32118e7778c225d5e6b32747a8",
        content: include_bytes!("assets/index-B9B1qRKY.js"),
        brotli: include_bytes!("assets/index-B9B1qRKY.js.br"),
    },
    Asset {
        path: "/assets/index-BVabQuRK.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "44953ff54fc9c40581d38468f2b6f968",
        content: include_bytes!("assets/index-BVabQuRK.css"),
        brotli: include_bytes!("assets/index-BVabQuRK.css.br"),
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
        hash: "7d79e5cf077d2538b69f6b8ad3589562",
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
