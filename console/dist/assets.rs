// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-DL4cIMjw.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "ceb62d7bea58b387171eee48af3c59b1",
        content: include_bytes!("assets/index-DL4cIMjw.js"),
        brotli: include_bytes!("assets/index-DL4cIMjw.js.br"),
    },
    Asset {
        path: "/assets/index-DkigJfoI.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "60eb313b21006062aa8a48c91e0706d3",
        content: include_bytes!("assets/index-DkigJfoI.css"),
        brotli: include_bytes!("assets/index-DkigJfoI.css.br"),
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
        hash: "9979aaa504fa10f07df362896b569810",
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
