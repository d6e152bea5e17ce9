//! Bakes in what a run must be able to say about its engine: profile, compiler, target, commit.
use std::process::Command;

fn main() {
    let env = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo:rustc-env=TOWTANK_PROFILE={}", env("PROFILE"));
    println!("cargo:rustc-env=TOWTANK_TARGET={}", env("TARGET"));
    println!("cargo:rustc-env=TOWTANK_RUSTC={}", output(&env("RUSTC"), &["--version"]));
    println!("cargo:rerun-if-changed=build.rs");
    // What only tests and lints are built from names none: each commit would have all of them built anew.
    let checks = std::path::Path::new(&env("OUT_DIR")).iter().any(|folder| folder == "checks");
    let commit = if checks { "none".to_owned() } else { watched_commit() };
    println!("cargo:rustc-env=TOWTANK_COMMIT={commit}");
}

/// The commit of this folder, or "" outside of a repository; another one is another build.
fn watched_commit() -> String {
    // A commit moves the branch that HEAD names, a checkout HEAD itself; outside of a repository nothing is watched.
    let branch = output("git", &["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", branch.as_str(), "packed-refs"] {
        let path = output("git", &["rev-parse", "--git-path", name]);
        if !name.is_empty() && std::path::Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    output("git", &["rev-parse", "--short=12", "HEAD"])
}

/// The trimmed output of a command, or "" if it cannot be had (no git, no repository).
fn output(program: &str, args: &[&str]) -> String {
    Command::new(program)
        .args(args)
        .output()
        .ok()
        .filter(|out| out.status.success())
        .and_then(|out| String::from_utf8(out.stdout).ok())
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
