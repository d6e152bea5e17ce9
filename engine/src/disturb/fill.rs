//! A file that takes room on a volume of a container, made from outside of it.
//!
//! Folders are looked up as the container sees them, and never outside of its root, whatever its links say.
use super::find;
use super::orders::Id;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, ResolveFlags, fallocate, fstat, fstatfs, fstatvfs, open, openat,
    openat2, stat, unlinkat,
};
use rustix::io::Errno;
use std::path::Path;

/// Its name.
pub const NAME: &str = ".towtank-fill";
const PIECE_BYTES: usize = 1 << 20;
const OVERLAYFS: i64 = 0x794c_7630;
/// Where kubelets keep volumes that have no disk of their own.
const KUBELET: &str = "var/lib/kubelet";

/// How large the file shall be.
#[derive(Clone, Copy)]
pub struct Room {
    /// At most.
    pub bytes: u64,
    /// What stays free on a disk of the volume's own.
    pub leave_bytes: u64,
    /// What stays free on a disk that the machine uses as well.
    pub leave_shared_bytes: u64,
}

/// Fills it; how many bytes the file has.
pub fn fill(containers: &[Id], folder: &str, wanted: Room) -> Result<u64, String> {
    let pid = find::one_of(containers)?;
    fill_in(&find::root_of(pid), &find::root_of(find::machine()), folder, wanted)
}

fn fill_in(root: &Path, machine: &Path, folder: &str, wanted: Room) -> Result<u64, String> {
    let failed = |what: &str, error: Errno| format!("{folder} {what}: {error}");
    let inside = folder_in(root, folder).map_err(|e| failed("cannot be opened in the container", e))?;
    let own = is_own_disk(&inside, machine).map_err(|e| failed("cannot be looked at", e))?;
    let leave = if own { wanted.leave_bytes } else { wanted.leave_shared_bytes };
    let disk = fstatvfs(&inside).map_err(|e| failed("cannot be looked at", e))?;
    let free = disk.f_bavail * disk.f_frsize;
    let bytes = wanted.bytes.min(free.saturating_sub(leave));
    if bytes == 0 {
        return Err(format!("{free} bytes are free at {folder}, and {leave} of them must stay free"));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        openat(&inside, NAME, flags, Mode::RUSR | Mode::WUSR).map_err(|e| failed("takes no file", e))?;
    take(&file, bytes, own).map_err(|error| {
        let _ = unlinkat(&inside, NAME, AtFlags::empty());
        failed("cannot be filled", error)
    })?;
    fstat(&file).map(|found| found.st_size as u64).map_err(|e| failed("cannot be looked at", e))
}

/// Removes the file; `pod`: its volumes may have come to a new container meanwhile.
pub fn empty(containers: &[Id], pod: &Id, folder: &str) -> Result<(), String> {
    let mut all = find::processes(containers);
    all.extend(find::processes_of_pod(pod));
    let mut failed = None;
    for process in all {
        match empty_in(&find::root_of(process.pid), folder) {
            Ok(true) => return Ok(()),
            // Another container of the pod may not have the volume.
            Ok(false) => {}
            Err(error) => failed = Some(format!("{NAME} in {folder} cannot be removed: {error}")),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Whether there was one.
fn empty_in(root: &Path, folder: &str) -> Result<bool, Errno> {
    let removed = folder_in(root, folder).and_then(|inside| unlinkat(inside, NAME, AtFlags::empty()));
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error),
    }
}

fn folder_in(root: &Path, folder: &str) -> Result<OwnedFd, Errno> {
    let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(root, folder, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
}

/// Whether nobody but the volume's users has that disk: then it may become really full.
fn is_own_disk(folder: &OwnedFd, machine: &Path) -> Result<bool, Errno> {
    let device = fstat(folder)?.st_dev;
    let is_of = |path: &Path| stat(path).is_ok_and(|found| found.st_dev == device);
    // A container's own layer has a device number of its own, and lies on the machine's disk.
    let layered = fstatfs(folder)?.f_type as i64 == OVERLAYFS;
    Ok(!layered && !is_of(machine) && !is_of(&machine.join(KUBELET)))
}

/// Takes room; what a sparse file shows is none.
fn take(file: impl AsFd, bytes: u64, to_the_brim: bool) -> Result<(), Errno> {
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => return Ok(()),
        // Somebody else has taken room meanwhile: what must stay free is not ours.
        Err(Errno::NOSPC) if !to_the_brim => return Err(Errno::NOSPC),
        Err(Errno::NOSPC | Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error),
    }
    let piece = vec![0xff; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        match rustix::io::write(&file, &piece[..piece.len().min(left as usize)]) {
            Ok(0) | Err(Errno::NOSPC) => break,
            Ok(written) => left -= written as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    const ROOM: Room = Room { bytes: 3 << 20, leave_bytes: 0, leave_shared_bytes: 0 };

    #[test]
    fn room_is_really_taken_and_given_back() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        assert_eq!(fill_in(root.path(), Path::new("/"), "/data", ROOM), Ok(3 << 20));
        let file = root.path().join("data").join(NAME);
        assert!(fs::metadata(&file).unwrap().blocks() * 512 >= 3 << 20);
        let again = fill_in(root.path(), Path::new("/"), "/data", ROOM).unwrap_err();
        assert!(again.contains("/data takes no file"), "{again}");
        assert_eq!((empty_in(root.path(), "/data"), empty_in(root.path(), "/data")), (Ok(true), Ok(false)));
        assert!(!file.exists());
    }

    #[test]
    fn the_reserve_of_a_disk_that_others_use_stays() {
        let root = tempfile::tempdir().unwrap();
        let wanted = Room { leave_shared_bytes: u64::MAX, ..ROOM };
        let refused = fill_in(root.path(), root.path(), "/", wanted).unwrap_err();
        assert!(refused.contains("must stay free"), "{refused}");
        assert!(!root.path().join(NAME).exists());
    }

    #[test]
    fn links_lead_nowhere_outside() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(other.path(), root.path().join("data")).unwrap();
        assert!(
            fill_in(root.path(), Path::new("/"), "/data", ROOM).unwrap_err().contains("cannot be opened")
        );
        assert!(fill_in(root.path(), Path::new("/"), "/nowhere", ROOM).is_err());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }
}
