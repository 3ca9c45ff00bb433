// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-C7zK5y26.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "3ccffbe0c0a8c2217ab8ee62e91b68be",
        content: include_bytes!("assets/index-C7zK5y26.js"),
        brotli: include_bytes!("assets/index-C7zK5y26.js.br"),
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
        hash: "ec6d201dba58d8475132a57807af75a2",
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
