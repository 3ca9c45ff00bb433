// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-Bjola17r.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "394e97bf30b58a27581ed6612c6dc1dc",
        content: include_bytes!("assets/index-Bjola17r.css"),
        brotli: include_bytes!("assets/index-Bjola17r.css.br"),
    },
    Asset {
        path: "/assets/index-CPzZMit7.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "0f4be8f2954a166773431c45cac28569",
        content: include_bytes!("assets/index-CPzZMit7.js"),
        brotli: include_bytes!("assets/index-CPzZMit7.js.br"),
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
        hash: "719cd3a046e49d12144a7af519a64715",
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
