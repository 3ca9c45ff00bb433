// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BdreGr1A.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "69ea98c93ac22051dc1e6c93ba788d9c",
        content: include_bytes!("assets/index-BdreGr1A.js"),
        brotli: include_bytes!("assets/index-BdreGr1A.js.br"),
    },
    Asset {
        path: "/assets/index-crs_QQn0.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "4f6fea87edd487d33aa47b12e18789f7",
        content: include_bytes!("assets/index-crs_QQn0.css"),
        brotli: include_bytes!("assets/index-crs_QQn0.css.br"),
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
        hash: "20e2bb655642929f73e73a2506890257",
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
