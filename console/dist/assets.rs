// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BuURcwD7.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "93b786abe9c0921bfa8f2f01f24565fd",
        content: include_bytes!("assets/index-BuURcwD7.js"),
        brotli: include_bytes!("assets/index-BuURcwD7.js.br"),
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
        hash: "f2a15e3fca90ae563bcb9853d9e34adc",
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
