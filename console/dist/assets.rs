// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-Ba_ARo3r.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "7d1fb94c0779cbeb8cf95fecad1af6fc",
        content: include_bytes!("assets/index-Ba_ARo3r.js"),
        brotli: include_bytes!("assets/index-Ba_ARo3r.js.br"),
    },
    Asset {
        path: "/assets/index-CChuz_gW.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "46e151db2294cab7c4bb08cd9452a509",
        content: include_bytes!("assets/index-CChuz_gW.css"),
        brotli: include_bytes!("assets/index-CChuz_gW.css.br"),
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
        hash: "79b271e1dd84c0f4965abaea30759406",
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
