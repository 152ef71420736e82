//! `granary dev`: build, deploy, watch; errors end nothing, and Ctrl-C ends the silo that it started.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use granary_tests::{Http, binary, guest, wait_until};

const WITHIN: Duration = Duration::from_secs(60);

/// A running `granary dev`. Killed when it is dropped, with whatever it still prints left in its files.
struct Dev {
    child: Child,
    folder: tempfile::TempDir,
}

impl Dev {
    fn start(admin: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        choose(&project, &guest("counter"));
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let child = Command::new(binary())
            .args(["dev", "project", "--component", "out.wasm", "--build-command"])
            .arg("echo built; cp \"$(cat which)\" out.wasm")
            .args(["--admin", &format!("http://{admin}")])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    fn wait_for(&self, file: &str, parts: &[&str]) -> String {
        wait_until(WITHIN, &format!("{file} has {parts:?}"), || {
            let text = std::fs::read_to_string(self.folder.path().join(file)).unwrap();
            if parts.iter().all(|part| text.contains(part)) { Ok(text) } else { Err(text) }
        })
    }

    fn choose(&self, component: &Path) {
        choose(&self.folder.path().join("project"), component);
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Saves the one source file of the project: the component that the build copies.
fn choose(project: &Path, component: &Path) {
    std::fs::write(project.join("which"), component.to_str().unwrap()).unwrap();
}

#[test]
fn saves_are_deployed_errors_end_nothing_and_ctrl_c_ends_the_silo_that_was_started() {
    let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut dev = Dev::start(&admin);
    let text = dev.wait_for("stdout", &["silo silo-1 started", "counter: active ", "(revision 1)"]);
    assert!(!text.contains("built"), "what a build prints is no result: {text}");
    let types = || {
        let rows = Http::new(&admin).get("/v1/deployments").unwrap().ok();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(types(), ["counter"]);

    dev.choose(Path::new("missing.wasm"));
    let _ = dev.wait_for("stderr", &["the build command failed"]);
    dev.choose(&guest("account").with_file_name("account.wasm"));
    let _ = dev.wait_for("stdout", &["account: active "]);
    assert_eq!(types(), ["account", "counter"]);

    // A component that cannot be deployed ends nothing either.
    let text = dev.folder.path().join("text.wasm");
    std::fs::write(&text, "no component").unwrap();
    dev.choose(&text);
    let _ = dev.wait_for("stderr", &["granary deploy failed"]);
    assert!(dev.child.try_wait().unwrap().is_none());

    let sent = Command::new("kill").args(["-s", "INT", &dev.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = wait_until(WITHIN, "granary dev ends", || dev.child.try_wait().unwrap().ok_or("it runs"));
    assert_eq!(status.code(), Some(0), "{}", dev.wait_for("stderr", &[]));
    assert!(Http::new(&admin).get("/healthz").is_err(), "the silo still runs");
}
