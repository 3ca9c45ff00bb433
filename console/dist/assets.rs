// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-B-XroPgN.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "56879165c16165f4f31a1b1925d3679e",
        content: include_bytes!("assets/index-B-XroPgN.js"),
        brotli: include_bytes!("assets/index-B-XroPgN.js.br"),
    },
    Asset {
        path: "/assets/index-Chr2UJPk.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "fb232f41000f6f3e2203694a4b749168",
        content: include_bytes!("assets/index-Chr2UJPk.css"),
        brotli: include_bytes!("assets/index-Chr2UJPk.css.br"),
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
        hash: "6210cdc9cab914f5fd335dac51d42156",
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
