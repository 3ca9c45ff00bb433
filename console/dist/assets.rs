// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-DBZKfPO2.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "65947d37e33eafea7a6f891402ed3942",
        content: include_bytes!("assets/index-DBZKfPO2.js"),
        brotli: include_bytes!("assets/index-DBZKfPO2.js.br"),
    },
    Asset {
        path: "/assets/index-DVMvQahQ.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "56de74976d0263759372f4fc8483f14a",
        content: include_bytes!("assets/index-DVMvQahQ.css"),
        brotli: include_bytes!("assets/index-DVMvQahQ.css.br"),
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
        hash: "8eeb1418e97d49bb4f8a5b523e66659b",
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
