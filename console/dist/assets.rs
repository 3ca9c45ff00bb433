// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-DBVL8FW5.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "fba20821871bce1b1fe949d79e692198",
        content: include_bytes!("assets/index-DBVL8FW5.js"),
        brotli: include_bytes!("assets/index-DBVL8FW5.js.br"),
    },
    Asset {
        path: "/assets/index-DUg3_RSh.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "4b5ab3970cc242d36fb0d08bf6838c52",
        content: include_bytes!("assets/index-DUg3_RSh.css"),
        brotli: include_bytes!("assets/index-DUg3_RSh.css.br"),
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
        hash: "e87e24b65cb9ff39bb5afff80bdb2b5d",
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
