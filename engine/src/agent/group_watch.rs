//! Containers as they start and end: inotify on the control groups of pods.
//!
//! Version 1 (and hybrid): a container has started when its group is made, just before the runtime puts its first process
//! there, and ended when the group goes. Version 2: when its group gets its first process, and when it has none any more. What
//! was there before is known, and not told as started.
use super::groups::{Layout, Named, is_populated, named};
use super::host::text;
use crate::transport::reactor::monotonic_ns;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 64 << 10;
const EVENTS_FILE: &str = "cgroup.events";

/// What became of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When the kernel told of it, on the monotonic clock.
    pub t_ns: u64,
    /// What it is.
    pub what: What,
    /// Of its pod; empty for `Missed`.
    pub pod: String,
    /// Its id; of the pod's sandbox, too.
    pub container: String,
}

/// Started, ended, or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It runs from now on.
    Started,
    /// It has ended.
    Ended,
    /// The kernel had more to tell than it keeps: instants of about now are those at which it was noticed.
    Missed,
}

/// A group that is watched.
enum Watched {
    /// Of pods, or a class of them.
    Pods(PathBuf),
    Pod(PathBuf, String),
    /// Only where groups tell when they are empty.
    Container(PathBuf),
}

struct Container {
    pod: String,
    id: String,
    running: bool,
}

/// Watches the groups of a layout.
pub struct GroupWatch {
    layout: Layout,
    inotify: OwnedFd,
    watched: HashMap<i32, Watched>,
    containers: HashMap<PathBuf, Container>,
    told: Vec<Change>,
    /// Why a group is not watched that is there, if so.
    unwatched: Option<Errno>,
}

impl GroupWatch {
    /// Begins to watch; what is there now has started before.
    pub fn begin(layout: Layout) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC)?;
        let mut watch = Self {
            layout,
            inotify,
            watched: HashMap::new(),
            containers: HashMap::new(),
            told: Vec::new(),
            unwatched: None,
        };
        let pods = watch.layout.pods.clone();
        watch.enter_pods(&pods, monotonic_ns());
        watch.told.clear();
        // Before anything is told, what is not watched is known: containers are then not told of at all.
        match watch.unwatched {
            _ if watch.watched.is_empty() => Err(watch.unwatched.unwrap_or(Errno::NOENT).into()),
            Some(error) => Err(error.into()),
            None => Ok(watch),
        }
    }

    /// Containers that run.
    #[cfg(test)]
    fn running(&self) -> usize {
        self.containers.values().filter(|container| container.running).count()
    }

    /// Waits until something happens to a group; yields what became of containers, which may be nothing.
    pub fn wait(&mut self) -> io::Result<Vec<Change>> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let inotify = self.inotify.try_clone()?;
        let mut reader = Reader::new(inotify, &mut buffer);
        loop {
            let (wd, flags, name) = match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                    (event.wd(), event.events(), name.unwrap_or_default())
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.take(wd, flags, &name, monotonic_ns());
            if reader.is_buffer_empty() {
                return Ok(std::mem::take(&mut self.told));
            }
        }
    }

    fn take(&mut self, wd: i32, flags: ReadFlags, name: &str, t_ns: u64) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.look_again(t_ns);
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.watched.remove(&wd);
            return;
        }
        match self.watched.get(&wd) {
            Some(Watched::Container(folder)) => {
                let folder = folder.clone();
                self.look_at(&folder, t_ns);
            }
            Some(Watched::Pods(folder)) if flags.contains(ReadFlags::CREATE) => {
                let path = folder.join(name);
                self.enter(&path, name, None, t_ns);
            }
            Some(Watched::Pod(folder, uid)) => {
                let (path, uid) = (folder.join(name), uid.clone());
                if flags.contains(ReadFlags::CREATE) {
                    self.enter(&path, name, Some(&uid), t_ns);
                } else if flags.contains(ReadFlags::DELETE) {
                    self.gone(&path, t_ns);
                }
            }
            _ => {}
        }
    }

    /// A group is there that was not known, or may not have been.
    fn enter(&mut self, path: &Path, name: &str, pod: Option<&str>, t_ns: u64) {
        match (named(name), pod) {
            (Named::Class, None) => self.enter_pods(path, t_ns),
            (Named::Pod(uid), None) => {
                self.watch(path, Watched::Pod(path.to_path_buf(), uid.clone()));
                // After the watch: what came before it is seen here, what comes after it is told.
                for (path, name) in folders(path) {
                    self.enter(&path, &name, Some(&uid), t_ns);
                }
            }
            (Named::Container(id), Some(uid)) if !self.containers.contains_key(path) => {
                let container = Container { pod: uid.to_owned(), id, running: false };
                self.containers.insert(path.to_path_buf(), container);
                if self.layout.unified {
                    let file = path.join(EVENTS_FILE);
                    self.watch_file(&file, Watched::Container(path.to_path_buf()));
                    self.look_at(path, t_ns);
                } else {
                    self.set_running(path, true, t_ns);
                }
            }
            _ => {}
        }
    }

    fn enter_pods(&mut self, path: &Path, t_ns: u64) {
        self.watch(path, Watched::Pods(path.to_path_buf()));
        for (path, name) in folders(path) {
            self.enter(&path, &name, None, t_ns);
        }
    }

    /// Version 2: whether a container has processes.
    fn look_at(&mut self, path: &Path, t_ns: u64) {
        if let Some(populated) = is_populated(&text(&path.join(EVENTS_FILE))) {
            self.set_running(path, populated, t_ns);
        }
    }

    fn set_running(&mut self, path: &Path, running: bool, t_ns: u64) {
        let Some(container) = self.containers.get_mut(path) else { return };
        if container.running != running {
            container.running = running;
            let what = if running { What::Started } else { What::Ended };
            let (pod, id) = (container.pod.clone(), container.id.clone());
            self.told.push(Change { t_ns, what, pod, container: id });
        }
    }

    fn gone(&mut self, path: &Path, t_ns: u64) {
        self.set_running(path, false, t_ns);
        self.containers.remove(path);
    }

    /// Messages were lost: everything is looked at, and what is different is told as of now.
    fn look_again(&mut self, t_ns: u64) {
        self.miss(t_ns);
        let lost: Vec<PathBuf> = self.containers.keys().filter(|path| !path.is_dir()).cloned().collect();
        for path in lost {
            self.gone(&path, t_ns);
        }
        let pods = self.layout.pods.clone();
        self.enter_pods(&pods, t_ns);
        if self.layout.unified {
            let known: Vec<PathBuf> = self.containers.keys().cloned().collect();
            for path in known {
                self.look_at(&path, t_ns);
            }
        }
    }

    fn watch(&mut self, folder: &Path, what: Watched) {
        let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let added = inotify::add_watch(&self.inotify, folder, flags);
        self.keep(added, what);
    }

    fn watch_file(&mut self, file: &Path, what: Watched) {
        let added = inotify::add_watch(&self.inotify, file, WatchFlags::MODIFY);
        self.keep(added, what);
    }

    /// One that is gone again needs no watch; that another one is not watched (too many watches, no right) is told.
    fn keep(&mut self, added: rustix::io::Result<i32>, what: Watched) {
        match added {
            Ok(wd) => {
                self.watched.insert(wd, what);
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => {
                self.unwatched = Some(error);
                self.miss(monotonic_ns());
            }
        }
    }

    fn miss(&mut self, t_ns: u64) {
        self.told.push(Change { t_ns, what: What::Missed, pod: String::new(), container: String::new() });
    }
}

fn folders(path: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const IDS: [&str; 3] = ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"];
    const UID: &str = "0b4aa1b0-7c1e-4a61-9d0b-5a5f7d7a2f11";

    struct Tree {
        sys: tempfile::TempDir,
        pods: PathBuf,
        unified: bool,
    }

    impl Tree {
        fn new(unified: bool) -> Self {
            let sys = tempfile::tempdir().expect("a folder");
            let root = sys.path().join("fs/cgroup");
            let pods = if unified { root.join("kubepods") } else { root.join("pids/kubepods") };
            fs::create_dir_all(pods.join("burstable")).expect("a folder");
            if unified {
                fs::write(root.join("cgroup.controllers"), "pids").expect("a file");
            }
            Self { sys, pods, unified }
        }

        fn watch(&self) -> GroupWatch {
            GroupWatch::begin(Layout::find(self.sys.path()).expect("pods")).expect("inotify")
        }

        fn start(&self, pod: &Path, id: &str) {
            let folder = pod.join(id);
            fs::create_dir_all(&folder).expect("a folder");
            if self.unified {
                fs::write(folder.join(EVENTS_FILE), "populated 1\n").expect("a file");
            }
        }

        fn end(&self, pod: &Path, id: &str) {
            if self.unified {
                fs::write(pod.join(id).join(EVENTS_FILE), "populated 0\n").expect("a file");
            }
            fs::remove_dir_all(pod.join(id)).expect("a folder");
        }
    }

    /// Everything up to the end of a container.
    fn until_ended(watch: &mut GroupWatch, id: &str) -> Vec<(What, String)> {
        let mut found = Vec::new();
        while !found.contains(&(What::Ended, id.to_owned())) {
            for change in watch.wait().expect("inotify") {
                assert!(change.what == What::Missed || change.pod == UID);
                found.push((change.what, change.container));
            }
        }
        found
    }

    #[test]
    fn containers_start_and_end_in_both_versions() {
        for unified in [false, true] {
            let tree = Tree::new(unified);
            let pod = tree.pods.join("burstable").join(format!("pod{UID}"));
            tree.start(&pod, IDS[0]);
            let mut watch = tree.watch();
            assert_eq!(watch.running(), 1, "what was there is known");
            let before_ns = monotonic_ns();
            tree.start(&pod, IDS[1]);
            if unified {
                // A real group has its file when it is made; here it came after the first look.
                fs::write(pod.join(IDS[1]).join(EVENTS_FILE), "populated 1\n").expect("a file");
            }
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(30));
                    tree.end(&pod, IDS[0]);
                    tree.end(&pod, IDS[1]);
                });
                let found = until_ended(&mut watch, IDS[1]);
                assert!(!found.contains(&(What::Started, IDS[0].into())), "it had started before: {found:?}");
                for expected in [(What::Started, IDS[1]), (What::Ended, IDS[0])] {
                    let times = found.iter().filter(|one| (one.0, &*one.1) == expected).count();
                    assert_eq!(times, 1, "{expected:?} in {found:?}, version 2: {unified}");
                }
            });
            assert!(monotonic_ns() > before_ns);
            assert_eq!(watch.running(), 0);
        }
    }

    #[test]
    fn a_pod_that_comes_later_is_seen_with_what_is_in_it_already() {
        let tree = Tree::new(false);
        let mut watch = tree.watch();
        let pod = tree.pods.join(format!("pod{UID}"));
        tree.start(&pod, IDS[2]);
        let mut found = Vec::new();
        while found.is_empty() {
            found = watch.wait().expect("inotify");
        }
        assert_eq!(found[0].what, What::Started);
        assert_eq!((&*found[0].pod, &*found[0].container), (UID, IDS[2]));
    }

    #[test]
    fn what_cannot_be_watched_is_told_unless_it_is_gone() {
        let tree = Tree::new(false);
        let mut watch = tree.watch();
        let watched = watch.watched.len();
        let folder = || Watched::Pods(tree.pods.clone());
        watch.watch(&tree.pods.join("gone"), folder());
        assert!(watch.told.is_empty(), "one that is gone needs no watch");
        for error in [Errno::NOSPC, Errno::ACCESS] {
            watch.keep(Err(error), folder());
            let told: Vec<_> =
                std::mem::take(&mut watch.told).into_iter().map(|change| change.what).collect();
            assert_eq!((told, watch.unwatched), (vec![What::Missed], Some(error)));
        }
        assert_eq!(watch.watched.len(), watched);
    }

    #[test]
    fn without_a_watch_of_all_pods_there_is_none() {
        let tree = Tree::new(false);
        let layout = Layout::find(tree.sys.path()).expect("pods");
        fs::remove_dir_all(&tree.pods).expect("a folder");
        assert_eq!(GroupWatch::begin(layout).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    }

    #[test]
    fn after_an_overflow_everything_is_looked_at_again() {
        let tree = Tree::new(false);
        let pod = tree.pods.join(format!("pod{UID}"));
        tree.start(&pod, IDS[0]);
        let mut watch = tree.watch();
        tree.end(&pod, IDS[0]);
        tree.start(&pod, IDS[1]);
        watch.take(-1, ReadFlags::QUEUE_OVERFLOW, "", 7);
        let told: Vec<_> = watch.told.iter().map(|change| (change.what, &*change.container)).collect();
        assert_eq!(told, [(What::Missed, ""), (What::Ended, IDS[0]), (What::Started, IDS[1])]);
    }
}
