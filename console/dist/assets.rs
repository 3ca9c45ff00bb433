// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-C557OXC8.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "24cec3816dda811928fda336c5062761",
        content: include_bytes!("assets/index-C557OXC8.js"),
        brotli: include_bytes!("assets/index-C557OXC8.js.br"),
    },
    Asset {
        path: "/assets/index-CJel9SeJ.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "52f6e2dc0dbca01adeaafc0c5074539a",
        content: include_bytes!("assets/index-CJel9SeJ.css"),
        brotli: include_bytes!("assets/index-CJel9SeJ.css.br"),
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
        hash: "97690fd497fe5a91aad36f7f8248013b",
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
