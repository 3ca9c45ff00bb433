// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-DbilgoA-.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "6ed2820b1165c8c5e726a3f9a550fad1",
        content: include_bytes!("assets/index-DbilgoA-.css"),
        brotli: include_bytes!("assets/index-DbilgoA-.css.br"),
    },
    Asset {
        path: "/assets/index-qXJ9Mws_.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "8479c6e28533f6aa41e4a5a707b8bcb9",
        content: include_bytes!("assets/index-qXJ9Mws_.js"),
        brotli: include_bytes!("assets/index-qXJ9Mws_.js.br"),
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
        hash: "722b86341852f7ab288cca4feb65c6ea",
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
