//! What a request costs before it is sent: templates, bodies, feeds. `cargo run --release --example journey_bench`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, read by people")]

use serde_json::{Value, json};
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;
use towtank_engine::job::Job;
use towtank_engine::journey::{Act, Fields, Frame, Message, Outgoing, Plan, Session, Traced, Walk};
use towtank_engine::rng::Rng;

const ROUNDS: u32 = 300_000;
const ROWS: u32 = 1_000_000;

fn job(step: &Value) -> Value {
    json!({
        "version": 1, "run_id": "r", "seed": 7, "output": "/nowhere",
        "feeds": {"people": {"file": "people.csv", "order": "random"}},
        "targets": {"app": {"instances": [{"name": "app-0", "url": "http://127.0.0.1:1"}]}},
        "workloads": [{
            "name": "shop", "timeout_us": 5_000_000,
            "load": {"model": "closed", "stages": [{"from_users": 1, "to_users": 1, "duration_us": 3_000_000}]},
            "journey": {"variables": {"page": 20}, "steps": [step]},
        }],
    })
}

fn request(more: &Value) -> Value {
    let mut request = json!({"name": "s", "path": "/"});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"request": request})
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = std::io::BufWriter::new(std::fs::File::create(dir.path().join("people.csv")).unwrap());
    writeln!(file, "name,mail,city,zip").unwrap();
    for n in 0..ROWS {
        writeln!(file, "Person {n},person{n}@mail.example,City {},{:05}", n % 997, n % 99_999).unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let started = Instant::now();
    let first = Job::from_json_in(&job(&request(&json!({}))).to_string(), dir.path()).unwrap();
    println!(
        "a feed of {} rows is read in {:.2} s",
        first.feeds[0].table.rows(),
        started.elapsed().as_secs_f64()
    );

    let checkout = json!({"method": "POST", "path": "/cart/checkout", "body": {"form": {
        "csrf": "{{ csrf }}", "email": "{{ people.mail }}", "street": "1600 Amphitheatre Parkway", "zip": "{{ people.zip }}",
        "city": "{{ people.city }}", "card": "4432-8015-6152-0454", "month": "{{ random_int(1, 12) }}", "year": "2039"}}});
    let event = json!({"method": "POST", "body": {"json": {"n": "{{ user }}", "text": "item {{ random_int(1, 500) }}"}},
        "cloud_event": {"mode": "structured", "type": "t", "source": "s"}});
    let capture = json!({"csrf": {"form": "csrf"}});
    let cases = [
        ("no template", json!({})),
        ("a path with a draw", json!({"path": "/items/{{ random_int(1, 500) }}"})),
        (
            "a path with a choice of nine",
            json!({"path": "/product/{{ random_choice(['0PUK6V6EV0', '1YMWWN1N4O', '2ZYFJ3GM2N', '66VCHSJNUP', '6E92ZMYYFZ', '9SIQT8TOJO', 'L9ECAV7KIM', 'LS4PSXUNUM', 'OLJCESPC7Z']) }}"}),
        ),
        (
            "path, query, header and feed",
            json!({"path": "/u/{{ user }}", "query": {"page": "{{ page }}", "q": "{{ people.city }}"}, "headers": {"x-user": "{{ people.name }}"}}),
        ),
        ("a form of eight fields", checkout),
        ("a structured event", event),
        ("one that needs minijinja", json!({"path": "/items/{{ random_int(1, 500) % 7 + iteration }}"})),
    ];
    for (what, step) in cases {
        let mut step = request(&step);
        if step.to_string().contains("csrf }}") {
            step["request"]["capture"] = capture.clone();
        }
        println!("{what}: {:.0} ns", measure(&step, dir.path()));
    }
    println!("traceparent: {:.0} ns", trace());
}

/// ns for an iteration: its row, the way to its step, and the request.
fn measure(step: &Value, folder: &std::path::Path) -> f64 {
    let plan = Plan::new(Job::from_json_in(&job(step).to_string(), folder).unwrap()).unwrap();
    let workload = &plan.workloads[0];
    let (mut session, mut rng, mut outgoing) =
        (Session::default(), Rng::from_parts(&[1]), Outgoing::default());
    session.set(0, "a2f4c6e8-0000-4000-8000-00000000aaaa".into());
    let started = Instant::now();
    for iteration in 0..ROUNDS {
        workload.rows.take(&mut session, 0, false, &mut rng);
        let mut frame = Frame {
            templates: &plan.templates,
            scope: &workload.scope,
            user: 7,
            iteration: u64::from(iteration),
            session: &mut session,
            rng: &mut rng,
        };
        let mut walk = Walk::new();
        while let Act::Request(index) = workload.program.next(&mut walk, &mut frame) {
            if let Message::Template(draft) = &workload.steps[index].message {
                draft.render(&mut frame, &mut outgoing).unwrap();
            }
        }
        black_box(&outgoing);
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}

fn trace() -> f64 {
    let mut step = request(&json!({}));
    step["request"]["traceparent"] = json!(1.0);
    let mut document = job(&step);
    document.as_object_mut().unwrap().remove("feeds");
    let plan = Plan::new(Job::from_json(&document.to_string()).unwrap()).unwrap();
    let trace = plan.workloads[0].steps[0].trace.as_ref().unwrap();
    let mut fields = Fields::default();
    let started = Instant::now();
    for user in 0..u64::from(ROUNDS) {
        fields.clear();
        trace.push(Traced { worker: 0, user, iteration: 0, scheduled_us: 5 }, &mut fields);
        black_box(&fields);
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}
