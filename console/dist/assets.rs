// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BAc8psxf.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "85e1a7115a5b317575d1b127ac5d2d36",
        content: include_bytes!("assets/index-BAc8psxf.js"),
        brotli: include_bytes!("assets/index-BAc8psxf.js.br"),
    },
    Asset {
        path: "/assets/index-DLk57ARl.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "f1b5b8b79f9c9dfa97642f8ea1c2ce38",
        content: include_bytes!("assets/index-DLk57ARl.css"),
        brotli: include_bytes!("assets/index-DLk57ARl.css.br"),
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
        hash: "021d9fa738e37dbbb7c36e92573ae79b",
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
