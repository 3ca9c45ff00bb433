// Written by `npm run build`.
&[
    Asset {
        path: "/assets/index-C_l2aMuL.css",
        media_type: "text/css; charset=utf-8",
        is_immutable: true,
        hash: "92f93ef45ebfd99b09ff1ab5137812d3",
        content: include_bytes!("assets/index-C_l2aMuL.css"),
        brotli: include_bytes!("assets/index-C_l2aMuL.css.br"),
    },
    Asset {
        path: "/assets/index-DimDXv1S.js",
        media_type: "text/javascript; charset=utf-8",
        is_immutable: true,
        hash: "df3fcfa566fc4890b026c25df26e2c43",
        content: include_bytes!("assets/index-DimDXv1S.js"),
        brotli: include_bytes!("assets/index-DimDXv1S.js.br"),
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
        hash: "62238d384d583be342f599bc8d151ad1",
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
