// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-B5_NJD1N.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "1bfebed8df1f045cae872cdc4999f795",
        content: include_bytes!("assets/index-B5_NJD1N.js"),
        brotli: include_bytes!("assets/index-B5_NJD1N.js.br"),
    },
    Asset {
        path: "/assets/index-FjgWAOpV.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "7993e55706fab1dc98b33864542dac9e",
        content: include_bytes!("assets/index-FjgWAOpV.css"),
        brotli: include_bytes!("assets/index-FjgWAOpV.css.br"),
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
        hash: "67d16190b7cb2ba1fa66771ed5932122",
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
