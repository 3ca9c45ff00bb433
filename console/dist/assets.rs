// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-D2I8s7sZ.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "524ee7e9d747272c7cac10ef768da765",
        content: include_bytes!("assets/index-D2I8s7sZ.js"),
        brotli: include_bytes!("assets/index-D2I8s7sZ.js.br"),
    },
    Asset {
        path: "/assets/index-Da6WFmvJ.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "3edfbd956d4028cd5ae146ca808a4a25",
        content: include_bytes!("assets/index-Da6WFmvJ.css"),
        brotli: include_bytes!("assets/index-Da6WFmvJ.css.br"),
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
        hash: "992032623fef619ce1ce82a7630950df",
        content: include_bytes!("index.html"),
        brotli: include_bytes!("index.html.br"),
    },
]
