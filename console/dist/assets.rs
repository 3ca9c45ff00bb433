// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-2gmuyN77.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "50378b57d88ca56d2af8bc3a8829c265",
        content: include_bytes!("assets/index-2gmuyN77.js"),
        brotli: include_bytes!("assets/index-2gmuyN77.js.br"),
    },
    Asset {
        path: "/assets/index-DiBJ-pGe.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "fe352f641f256a4da94cb9c51c652aed",
        content: include_bytes!("assets/index-DiBJ-pGe.css"),
        brotli: include_bytes!("assets/index-DiBJ-pGe.css.br"),
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
        hash: "a54e04b2d904cce0bc3b1441082e92c3",
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
