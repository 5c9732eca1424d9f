//! A Debian package, laid out by hand and built by `dpkg-deb`: the program, its unit, manual, completions and documents.
//! What it must be able to do is in `proof`; `image` looks at the Dockerfile, which nothing here can build.

mod image;
mod proof;
mod source;

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
/// One node, and any of several on a machine.
const UNITS: [&str; 2] = ["tenure.service", "tenure@.service"];
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

/// Builds it around the program that the tests built, installs it into a folder, tries what is in it and takes it away
/// again. It is not compressed: that program is many times as large as a release, and would take minutes.
pub fn test(workspace: &Workspace) -> Result<(), String> {
    let program = server::build(workspace)?;
    let folder = workspace.target.join("package-test");
    image::check(workspace, &program)?;
    proof::check(&build(&program, &folder, "none")?, &folder)?;
    source::check(&folder)
}

fn build(program: &Path, folder: &Path, compression: &str) -> Result<PathBuf, String> {
    let root = folder.join("root");
    remove(&root)?;
    let version = said(Command::new(program).arg("--version"))?;
    let version = version.split_whitespace().nth(1).ok_or("a version without a number")?.to_owned();
    put(&root.join("usr/bin/tenure"), &read(program)?, 0o755)?;
    let source = cargo::root();
    for name in UNITS {
        let unit = read(&source.join("deploy/systemd").join(name))?;
        put(&root.join("lib/systemd/system").join(name), &unit, 0o644)?;
    }
    // For root alone: it may get secrets, and systemd reads it for the service.
    put(&root.join("etc/tenure/tenure.toml"), CONFIGURATION.as_bytes(), 0o600)?;
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
    let control = control(&version, architecture, &libraries(program, folder)?, kibibytes(&root)?);
    put(&root.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    for (name, text) in [("postinst", RELOAD), ("prerm", STOP), ("postrm", RELOAD)] {
        put(&root.join("DEBIAN").join(name), text.as_bytes(), 0o755)?;
    }
    let package = folder.join(format!("tenure_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group").arg(format!("-Z{compression}")).arg("--build");
    run(pack.arg(&root).arg(&package))?;
    Ok(package)
}

fn control(version: &str, architecture: &str, libraries: &str, size_kib: u64) -> String {
    format!(
        "Package: tenure\nVersion: {version}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Installed-Size: {size_kib}\nDepends: {libraries}, ca-certificates\n\
         Maintainer: Tenure <tenure@tenure.example>\nDescription: who holds what, until when\n \
         A server for exclusive claims on items, each with a visible holder, a deadline, a fencing token and a\n \
         numbered record of every change.\n"
    )
}

/// The packages whose libraries the program needs, in the versions that have what it calls: those of the machine that
/// built it, and so nothing that could be written down here.
fn libraries(program: &Path, folder: &Path) -> Result<String, String> {
    // It wants to be called in a source package, and reads only that there is one.
    let place = folder.join("source");
    put(&place.join("debian/control"), b"Source: tenure\n\nPackage: tenure\nArchitecture: any\n", 0o644)?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.arg("-O").arg(program).current_dir(&place);
    let said = said(&mut command).map_err(|error| format!("{error} (it comes with dpkg-dev)"))?;
    let depends = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(str::to_owned).ok_or_else(|| format!("dpkg-shlibdeps found no libraries: {said}"))
}

/// What the files take.
fn kibibytes(folder: &Path) -> Result<u64, String> {
    let said = said(Command::new("du").args(["-sk", "--exclude=DEBIAN"]).arg(folder))?;
    let size = said.split_whitespace().next().and_then(|size| size.parse().ok());
    size.ok_or_else(|| format!("du said {said}"))
}

/// The unit makes its own user. It is not started: somebody looks at the configuration first. Into another root
/// (`DPKG_ROOT`) nothing of this machine's is told.
const RELOAD: &str = "#!/bin/sh\nset -e\n\
    if [ -z \"$DPKG_ROOT\" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n";
const STOP: &str = "#!/bin/sh\nset -e\n\
    if [ -z \"$DPKG_ROOT\" ] && [ -d /run/systemd/system ] && [ \"$1\" = remove ]; then\n  \
    systemctl stop tenure.service 'tenure@*.service' || true\nfi\n";

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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a unit says, without comments.
    fn said_by(name: &str) -> Vec<String> {
        let unit =
            String::from_utf8(read(&cargo::root().join("deploy/systemd").join(name)).unwrap()).unwrap();
        unit.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
    }

    /// A service without a user of its own can read nothing that is not for everybody, but for what systemd hands it.
    #[test]
    fn the_units_read_their_configuration_as_a_credential() {
        for name in UNITS {
            let said = said_by(name);
            let start = said.iter().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
            assert!(start.ends_with("--config %d/tenure.toml"), "{name}: {start}");
            assert!(
                said.iter().any(|line| line == "LoadCredential=tenure.toml:/etc/tenure/tenure.toml"),
                "{name}"
            );
        }
    }

    /// One of several nodes is what the only one is, at a port of its own and with a user that they share.
    #[test]
    fn the_unit_of_several_nodes_differs_from_the_other_only_in_what_it_must() {
        let [one, many] = UNITS.map(said_by);
        let only = |of: &[String], other: &[String]| -> Vec<String> {
            of.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        assert_eq!(only(&one, &many), ["Description=Tenure: who holds what, until when"]);
        assert_eq!(
            only(&many, &one),
            [
                "Description=Tenure: who holds what, until when (node at port %i)",
                "Environment=TENURE_LISTEN=127.0.0.1:%i",
                "User=tenure",
            ]
        );
    }

    /// By systemd itself, where the machine has it. It looks for the program, too: any will do.
    #[test]
    fn systemd_takes_the_units() {
        let folder = std::env::temp_dir().join(format!("tenure-units-{}", std::process::id()));
        for (name, checked) in UNITS.into_iter().zip(["tenure.service", "tenure@8081.service"]) {
            let unit = said_by(name).join("\n").replace("/usr/bin/tenure", "/bin/sh");
            put(&folder.join(checked), unit.as_bytes(), 0o644).unwrap();
            let mut verify = Command::new("systemd-analyze");
            let output = verify.arg("verify").arg(folder.join(checked)).stdin(Stdio::null()).output();
            let Ok(output) = output else {
                println!("systemd-analyze is not here: only our own look was taken");
                break;
            };
            let wrong = String::from_utf8_lossy(&output.stderr);
            let wrong: Vec<&str> = wrong.lines().filter(|line| line.contains(checked)).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
        }
        remove(&folder).unwrap();
    }
}
