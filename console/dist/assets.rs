// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-CPmnxe_l.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "689b6ad39070cf31fa8413de3bb85a79",
        content: include_bytes!("assets/index-CPmnxe_l.js"),
        brotli: include_bytes!("assets/index-CPmnxe_l.js.br"),
    },
    Asset {
        path: "/assets/index-DYKIrb7P.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "d5cd5f69b06a11cb97b5f4b834da08f7",
        content: include_bytes!("assets/index-DYKIrb7P.css"),
        brotli: include_bytes!("assets/index-DYKIrb7P.css.br"),
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
        hash: "c44b428af7d79b1eb73b5f69bc6fb2c9",
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
