// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-D1FP8SwB.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "93768edf8051b276f8ac1837504ecc7f",
        content: include_bytes!("assets/index-D1FP8SwB.js"),
        brotli: include_bytes!("assets/index-D1FP8SwB.js.br"),
    },
    Asset {
        path: "/assets/index-k0MHWOWe.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "023adc6af781805cd1eaf814e447cfd6",
        content: include_bytes!("assets/index-k0MHWOWe.css"),
        brotli: include_bytes!("assets/index-k0MHWOWe.css.br"),
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
        hash: "64832c90d48d62dd9621591de0bbdae4",
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
