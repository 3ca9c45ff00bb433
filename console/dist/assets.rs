// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-BWb6T_nv.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "5482ced3bbecda2a318b9e057d33e70b",
        content: include_bytes!("assets/index-BWb6T_nv.css"),
        brotli: include_bytes!("assets/index-BWb6T_nv.css.br"),
    },
    Asset {
        path: "/assets/index-B_20kt1Z.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "35e2c92176ba3118b8b66fc4d09e24c2",
        content: include_bytes!("assets/index-B_20kt1Z.js"),
        brotli: include_bytes!("assets/index-B_20kt1Z.js.br"),
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
        hash: "228b36acf1a4592c05bece8771d178db",
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
