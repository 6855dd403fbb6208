//! A QEMU virtual machine with a volume as its disk. A boot takes half a minute, so these tests are ignored by default; `research/bars/doors`
//! runs them.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::{PROGRAM, Served, has};

/// Builds kernel and initrd in a folder; false, with a message, if that is not possible.
fn prepares(served: &Served, with_fio: bool) -> bool {
    let script = super::root().join("tests/machine");
    let mut command = Command::new(script);
    command.arg(served.folder.path());
    if with_fio {
        command.arg("--fio");
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || output.status.code() == Some(77), "{said}");
    if !output.status.success() {
        eprintln!("skipped: {said}");
    }
    output.status.success()
}

/// Boots the machine with this drive, waits until it powers off, and returns its console output.
fn boots(served: &Served, mode: &str, drive: &[&str]) -> String {
    let mut qemu = Command::new("timeout");
    qemu.args(["240", "qemu-system-x86_64", "-m", "512", "-nographic", "-no-reboot", "-kernel", "vmlinuz", "-initrd", "initrd"]);
    qemu.args(["-append", &format!("console=ttyS0 quiet seekwise={mode}")]).args(drive);
    let output = qemu.current_dir(served.folder.path()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

const NBD: [&str; 2] = ["-drive", "driver=nbd,server.type=unix,server.path=nbd,export=web,if=virtio"];
const VHOST_USER: [&str; 8] = [
    "-object",
    "memory-backend-memfd,id=memory,size=512M,share=on",
    "-numa",
    "node,memdev=memory",
    "-chardev",
    "socket,id=disk,path=web.sock",
    "-device",
    "vhost-user-blk-pci,chardev=disk,num-queues=1",
];

#[test]
#[ignore = "boots a virtual machine"]
fn the_quick_start_gives_a_virtual_machine_a_disk_that_keeps_its_data() {
    if !has("qemu-system-x86_64") {
        return;
    }
    // Used only for its folder: the page starts its own server.
    let mut served = Served::file("none");
    served.kill();
    if !prepares(&served, false) {
        return;
    }
    let page = std::fs::read_to_string(super::root().join("docs/serve.md")).unwrap();
    let section = page.split("## From nothing to a volume in a virtual machine").nth(1).unwrap();
    let commands = section.split("```sh root\n").nth(1).unwrap().split("```").next().unwrap().replace("\\\n", " ");
    assert_eq!(commands.lines().count(), 5, "five commands");
    let path = format!("{}:{}", std::path::Path::new(PROGRAM).parent().unwrap().display(), std::env::var("PATH").unwrap());
    // Wait for the server's ready message, as a user would.
    let script = commands.replace(" &\n", " &\nuntil [ -S serve.sock ]; do sleep 0.1; done\n");
    let script = format!("set -e\ntrap 'kill $(jobs -p)' EXIT\n{script}");
    let output = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .env("PATH", path)
        .current_dir(served.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("seekwise: the volume is whole"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "boots virtual machines"]
fn what_a_virtual_machine_wrote_is_there_after_the_server_was_killed() {
    if !has("qemu-system-x86_64") {
        return;
    }
    let mut served = Served::file("youchoose");
    if !prepares(&served, false) {
        return;
    }
    served.does(&["create", "web", "--size", "256M"]);
    let first = boots(&served, "first", &NBD);
    assert!(first.contains("seekwise: the volume is whole"), "{first}");
    served.kill();
    served.start();
    let again = boots(&served, "again", &NBD);
    assert!(again.contains("7 files verified") && again.contains("seekwise: the volume is whole"), "{again}");
}

#[test]
#[ignore = "boots a virtual machine"]
fn fio_in_a_virtual_machine_verifies_its_writes() {
    if !has("qemu-system-x86_64") || !has("fio") {
        return;
    }
    let served = Served::file("youchoose");
    if !prepares(&served, true) {
        return;
    }
    served.does(&["create", "web", "--size", "256M"]);
    let said = boots(&served, "fio", &NBD);
    assert!(said.contains("seekwise: the volume is whole"), "{said}");
}

#[test]
#[ignore = "boots virtual machines"]
fn a_disk_by_vhost_user_keeps_its_data_and_is_the_same_volume_as_by_nbd() {
    if !has("qemu-system-x86_64") || !cfg!(feature = "vhost-user") {
        eprintln!("skipped: needs qemu-system-x86_64 and the feature vhost-user");
        return;
    }
    let mut served = Served::new(
        "[[listen]]\nvhost_user = 'FOLDER/web.sock'\nvolume = 'web'\n[[store]]\nname = 'main'\npath = 'FOLDER/store'\n",
    );
    if !prepares(&served, true) {
        return;
    }
    // Without a volume the monitor's connection is rejected, and the socket stays open.
    drop(std::os::unix::net::UnixStream::connect(served.path("web.sock")).unwrap());
    served.does(&["create", "web", "--size", "256M"]);
    let first = boots(&served, "first", &VHOST_USER);
    assert!(first.contains("disk of 524288 sectors") && first.contains("seekwise: the volume is whole"), "{first}");
    served.wait_until_closed("web");
    assert!(served.status("web")["writes"].as_u64() > Some(10), "{}", served.status("web"));
    served.kill();
    served.start();
    let again = boots(&served, "again", &NBD);
    assert!(again.contains("7 files verified") && again.contains("seekwise: the volume is whole"), "{again}");
    let fio = boots(&served, "fio", &VHOST_USER);
    assert!(fio.contains("seekwise: the volume is whole"), "{fio}");
    // Clients that disconnect at once or send garbage.
    for bytes in [&b""[..], &[7; 100], &[255; 12]] {
        use std::io::Write as _;
        let mut client = std::os::unix::net::UnixStream::connect(served.path("web.sock")).unwrap();
        let _ = client.write_all(bytes);
        std::thread::sleep(Duration::from_millis(50));
    }
    served.wait_until_closed("web");
    assert!(served.end().success());
}
