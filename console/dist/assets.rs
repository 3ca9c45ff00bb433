// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-C05OGIJo.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "0adc3dbfe127bbb850215666ebb86815",
        content: include_bytes!("assets/index-C05OGIJo.js"),
        brotli: include_bytes!("assets/index-C05OGIJo.js.br"),
    },
    Asset {
        path: "/assets/index-DCbJUJiv.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "118a5505c96696db418c2b8fbd307409",
        content: include_bytes!("assets/index-DCbJUJiv.css"),
        brotli: include_bytes!("assets/index-DCbJUJiv.css.br"),
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
        hash: "bf97a2d9b313e4c675be4ef70344d9c6",
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
