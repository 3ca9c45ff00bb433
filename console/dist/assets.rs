// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-D8noF-W5.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "b809b3a9a7f1a0c3e59eb41750ac2cb0",
        content: include_bytes!("assets/index-D8noF-W5.js"),
        brotli: include_bytes!("assets/index-D8noF-W5.js.br"),
    },
    Asset {
        path: "/assets/index-DZkVXUk1.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "c7b7fcec4bad0f508fc29703593b146d",
        content: include_bytes!("assets/index-DZkVXUk1.css"),
        brotli: include_bytes!("assets/index-DZkVXUk1.css.br"),
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
        hash: "7b5c542b0390fe3b85237c63fbdc7115",
        content: include_bytes!("index.html"),
        brotli: include_bytes!("index.html.br"),
    },
]
