//! Names of instances in the log, many of them.
use super::super::findings::Note;
use super::*;
use crate::job::Job;
use crate::record::compact::compact;
use crate::transport::Exchange;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};

struct Desk {
    recorder: Recorder,
    instances: Rc<RefCell<Instances>>,
    inbox: Receiver<Note>,
}

impl Desk {
    fn new(log: Option<LogWriter>) -> Self {
        let job = json!({
            "version": 1, "run_id": "r", "output": "o",
            "targets": {"a": {"instances": [{"name": "a", "url": "http://h"}]}},
            "workloads": [{"name": "w", "timeout_us": 1,
                "load": {"model": "closed", "stages": [{"from_users": 1, "to_users": 1, "duration_us": 1}]},
                "journey": {"steps": [{"request": {"name": "s", "path": "/"}}]}}],
        });
        let job = Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}"));
        let plan = Arc::new(Plan::new(job).unwrap_or_else(|p| panic!("{p:?}")));
        let instances = Rc::new(RefCell::new(Instances::new(plan.instance_names())));
        let (notes, inbox) = channel();
        let recorder = Recorder::new(log, &plan, &Arc::default(), notes, &instances, (0, 0));
        recorder.begin();
        Self { recorder, instances, inbox }
    }

    /// A row whose answer names an instance.
    fn keep(&self, user: u32, name: &str) {
        let mut x = Exchange::new(u64::from(user) * 1000);
        x.outcome = Outcome::Answered;
        x.instance = self.instances.borrow_mut().intern(name.as_bytes()).or(Some(0));
        let origin = Origin { workload: 0, user, iteration: 0, step: 0, target: 0 };
        let at_ns = u64::from(user) * 1000;
        let times = Times { scheduled_ns: at_ns, picked_ns: at_ns, started_ns: at_ns };
        self.recorder.keep(origin, times, &x);
    }
}

#[test]
fn each_name_is_written_once() {
    const ROWS: u32 = 3000;
    let dir = tempfile::tempdir().expect("a folder");
    let logs = dir.path().join("requests");
    let desk = Desk::new(Some(LogWriter::create(&logs, 0).expect("a log")));
    (0..ROWS).for_each(|i| desk.keep(i, &format!("request-{i}")));
    let log = desk.recorder.finish().expect("a log").expect("whole");
    assert!(log.bytes < u64::from(ROWS) * 300, "{} bytes for {ROWS} rows", log.bytes);

    let out = dir.path().join("requests.parquet");
    assert_eq!(compact(&logs, &out).expect("merged").rows, u64::from(ROWS));
    let file = SerializedFileReader::new(std::fs::File::open(&out).expect("there")).expect("Parquet");
    let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
    let at = columns.iter().position(|c| c.name() == "instance").expect("a column");
    let rows = file.get_row_iter(None).expect("rows");
    let names: Vec<_> =
        rows.map(|row| row.expect("good").get_string(at).expect("named").to_owned()).collect();
    assert!(names.iter().enumerate().all(|(i, name)| *name == format!("request-{i}")));
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), ROWS as usize);
}

#[test]
fn too_many_names_are_told_of_once() {
    let desk = Desk::new(None);
    let told = |desk: &Desk| -> Vec<_> {
        let name = |note| if let Note::Finding(finding) = note { finding.name } else { "another note" };
        desk.inbox.try_iter().map(name).collect()
    };
    // One name is the configured instance's.
    (1..MAX_INSTANCES as u32).for_each(|i| desk.keep(i, &format!("request-{i}")));
    assert!(told(&desk).is_empty(), "as many as there is room for");
    (0..3).for_each(|i| desk.keep(10_000 + i, &format!("one-more-{i}")));
    assert_eq!(told(&desk), ["instance_names_full"]);
    let rows = desk.recorder.rows.take();
    assert_eq!(rows.last().map(|row| row.instance), Some(0), "the instance connected to");
}
