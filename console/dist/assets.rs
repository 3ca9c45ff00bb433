// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BQHq4S41.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "456363dea3de4f72eb8e695d402dcbaa",
        content: include_bytes!("assets/index-BQHq4S41.css"),
        brotli: include_bytes!("assets/index-BQHq4S41.css.br"),
    },
    Asset {
        path: "/assets/index-BqGqMYT9.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "21e3037661672237df2cac2dbbb79dca",
        content: include_bytes!("assets/index-BqGqMYT9.js"),
        brotli: include_bytes!("assets/index-BqGqMYT9.js.br"),
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
        hash: "35f64b80921de3a57413ca0f7dd10b29",
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
