// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BIHPThrN.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "bde99bc743182bc4909d07a1ef2bd97b",
        content: include_bytes!("assets/index-BIHPThrN.js"),
        brotli: include_bytes!("assets/index-BIHPThrN.js.br"),
    },
    Asset {
        path: "/assets/index-D3sRyGUk.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "6b20e05275c8e759d2a890b389c9bf97",
        content: include_bytes!("assets/index-D3sRyGUk.css"),
        brotli: include_bytes!("assets/index-D3sRyGUk.css.br"),
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
        hash: "ed73ed338a146ed85b86e781b4ab336a",
        content: include_bytes!("index.html"),
        brotli: include_bytes!("index.html.br"),
    },
]
