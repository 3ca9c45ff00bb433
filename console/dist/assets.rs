// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-B-t0GQK-.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "25ce52fa3463ea6d5fd8f68e8ff59aed",
        content: include_bytes!("assets/index-B-t0GQK-.js"),
        brotli: include_bytes!("assets/index-B-t0GQK-.js.br"),
    },
    Asset {
        path: "/assets/index-DOxN9TU7.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "329d901553d994f69eb7f5c8c29d66bf",
        content: include_bytes!("assets/index-DOxN9TU7.css"),
        brotli: include_bytes!("assets/index-DOxN9TU7.css.br"),
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
        hash: "5433bbde0b442d08649b34e552b35bf7",
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
