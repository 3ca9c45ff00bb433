// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-B-V1jAdZ.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "d700302864f6097fe4fccf67d0008df2",
        content: include_bytes!("assets/index-B-V1jAdZ.css"),
        brotli: include_bytes!("assets/index-B-V1jAdZ.css.br"),
    },
    Asset {
        path: "/assets/index-F2HCdhxe.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "da71cbae01933e017cb38acf007bf07f",
        content: include_bytes!("assets/index-F2HCdhxe.js"),
        brotli: include_bytes!("assets/index-F2HCdhxe.js.br"),
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
        hash: "b3d72fbea9392586808c6c997e58b075",
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
