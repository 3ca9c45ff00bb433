// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-B09c5zae.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "dab69f49cf64d42d58478512f2aba0b2",
        content: include_bytes!("assets/index-B09c5zae.js"),
        brotli: include_bytes!("assets/index-B09c5zae.js.br"),
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
        hash: "8d6bcb4313fd35d5df71c4dc396f4b5b",
        content: include_bytes!("index.html"),
        brotli: include_bytes!("index.html.br"),
    },
]
