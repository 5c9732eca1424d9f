//! A Debian package, laid out by hand and built by `dpkg-deb`: the program, its unit, manual, completions and documents.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{self, Workspace};
use crate::server;

const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/tenure"),
    ("zsh", "usr/share/zsh/vendor-completions/_tenure"),
    ("fish", "usr/share/fish/vendor_completions.d/tenure.fish"),
];
/// Shown to every machine that installs it, and kept when the package goes.
const CONFIGURATION: &str =
    "# What is not set has its default: see `tenure config show`.\nlisten = \"127.0.0.1:8080\"\n";

/// Builds it in release, and tells where it lies.
pub fn release(workspace: &Workspace) -> Result<(), String> {
    cargo::run(&["build", "--release", "--locked", "--package", "tenure-cli"])?;
    let package = build(&workspace.target.join("release/tenure"), &workspace.target.join("package"), "xz")?;
    println!("{}", package.display());
    Ok(())
}

/// Builds it around the program that the tests built, and looks what is in it. It is not compressed: that program is
/// many times as large as a release, and would take minutes.
pub fn test(workspace: &Workspace) -> Result<(), String> {
    let package = build(&server::build(workspace)?, &workspace.target.join("package-test"), "none")?;
    let unpacked = package.with_extension("unpacked");
    remove(&unpacked)?;
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&unpacked))?;
    let version = said(Command::new(unpacked.join("usr/bin/tenure")).arg("--version"))?;
    let listed = said(Command::new("dpkg-deb").arg("--contents").arg(&package))?;
    for path in [
        "./lib/systemd/system/tenure.service",
        "./usr/share/man/man1/tenure-serve.1.gz",
        "./usr/share/bash-completion/completions/tenure",
        "./usr/share/doc/tenure/copyright",
        "./etc/tenure/tenure.toml",
    ] {
        if !listed.lines().any(|line| line.ends_with(path)) {
            return Err(format!("the package lacks {path}"));
        }
    }
    if !version.contains('(') {
        return Err(format!("`tenure --version` tells no commit: {version}"));
    }
    println!("{} with {}", package.display(), version.trim());
    Ok(())
}

fn build(program: &Path, folder: &Path, compression: &str) -> Result<PathBuf, String> {
    let root = folder.join("root");
    remove(&root)?;
    let version = said(Command::new(program).arg("--version"))?;
    let version = version.split_whitespace().nth(1).ok_or("a version without a number")?.to_owned();
    put(&root.join("usr/bin/tenure"), &read(program)?, 0o755)?;
    let source = cargo::root();
    let unit = read(&source.join("deploy/systemd/tenure.service"))?;
    put(&root.join("lib/systemd/system/tenure.service"), &unit, 0o644)?;
    put(&root.join("etc/tenure/tenure.toml"), CONFIGURATION.as_bytes(), 0o644)?;
    for (shell, path) in SHELLS {
        let text = said(Command::new(program).args(["completions", shell]))?;
        put(&root.join(path), text.as_bytes(), 0o644)?;
    }
    let manual = root.join("usr/share/man/man1");
    run(Command::new(program).arg("man").arg(&manual))?;
    for page in fs::read_dir(&manual).map_err(|error| format!("{}: {error}", manual.display()))? {
        let page = page.map_err(|error| error.to_string())?.path();
        run(Command::new("gzip").arg("-9n").arg(page))?;
    }
    let documents = root.join("usr/share/doc/tenure");
    for name in ["README.md", "CHANGELOG.md"] {
        put(&documents.join(name), &read(&source.join(name))?, 0o644)?;
    }
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| read(&source.join(name)));
    let [mit, apache] = licences;
    let copyright = [
        b"Licensed under either of the two below, as you like.\n\n".to_vec(),
        mit?,
        b"\n\n".to_vec(),
        apache?,
    ];
    put(&documents.join("copyright"), &copyright.concat(), 0o644)?;
    put(&root.join("DEBIAN/conffiles"), b"/etc/tenure/tenure.toml\n", 0o644)?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    put(&root.join("DEBIAN/control"), control(&version, architecture).as_bytes(), 0o644)?;
    for (name, text) in [("postinst", POSTINST), ("prerm", PRERM)] {
        put(&root.join("DEBIAN").join(name), text.as_bytes(), 0o755)?;
    }
    let package = folder.join(format!("tenure_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group").arg(format!("-Z{compression}")).arg("--build");
    run(pack.arg(&root).arg(&package))?;
    Ok(package)
}

fn control(version: &str, architecture: &str) -> String {
    format!(
        "Package: tenure\nVersion: {version}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Depends: libc6 (>= 2.34), ca-certificates\nMaintainer: Tenure <tenure@tenure.example>\n\
         Description: who holds what, until when\n \
         A server for exclusive claims on items, each with a visible holder, a deadline, a fencing token and a\n \
         numbered record of every change.\n"
    )
}

/// The unit makes its own user. It is not started: somebody looks at the configuration first.
const POSTINST: &str = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n";
const PRERM: &str = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ] && [ \"$1\" = remove ]; then systemctl stop tenure.service || true; fi\n";

fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    fs::write(path, bytes).map_err(wrong)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(wrong)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    said(command).map(|_| ())
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
