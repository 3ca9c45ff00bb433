// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-D_u0F72s.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "434793d03fefeabfece515ec3573ec8d",
        content: include_bytes!("assets/index-D_u0F72s.js"),
        brotli: include_bytes!("assets/index-D_u0F72s.js.br"),
    },
    Asset {
        path: "/assets/index-H3pS83-z.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "8cb9c061442abaf4de0002d409ec48ea",
        content: include_bytes!("assets/index-H3pS83-z.css"),
        brotli: include_bytes!("assets/index-H3pS83-z.css.br"),
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
        hash: "f1a9961ca4a5040f6f058aa8f1bdbd1b",
        content: include_bytes!("index.html"),
        brotli: include_bytes!("index.html.br"),
    },
]
