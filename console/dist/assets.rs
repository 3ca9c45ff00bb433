// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BRSpIxA0.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "413665de45a7ce0c1bbbd13e38e95d29",
        content: include_bytes!("assets/index-BRSpIxA0.css"),
        brotli: include_bytes!("assets/index-BRSpIxA0.css.br"),
    },
    Asset {
        path: "/assets/index-ByjrvLDD.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "fc04080bbd1acba229c8014ff5b9fd4a",
        content: include_bytes!("assets/index-ByjrvLDD.js"),
        brotli: include_bytes!("assets/index-ByjrvLDD.js.br"),
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
        hash: "5a21c8a08f11e0c132b4ed869d115f4b",
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
