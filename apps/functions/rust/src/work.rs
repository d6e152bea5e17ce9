//! What a request asks for: read from a query or an event's data, and carried out.

use actix_web::rt::time::sleep;
use actix_web::web::Query;
use cloudevents::Data;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::hint::black_box;
use std::time::{Duration, Instant};

const DECIMALS: usize = 6;

/// What a request asks for.
#[derive(Default)]
pub struct Work {
    sleep: Option<Duration>,
    burn: Option<Duration>,
}

impl Work {
    /// Reads `sleep=1s&burn=20ms`.
    pub fn of_query(query: &str) -> Result<Self, String> {
        let given = Query::<Vec<(String, String)>>::from_query(query)
            .map_err(|wrong| format!("the query {query:?} cannot be read: {wrong}"))?;
        let mut work = Self::default();
        for (name, text) in given.into_inner() {
            work.take(&name, &Value::String(text))?;
        }
        Ok(work)
    }

    /// Reads the data of an event: a JSON object, or nothing.
    pub fn of_data(data: Option<&Data>) -> Result<Self, String> {
        let read = match data {
            None => return Ok(Self::default()),
            Some(Data::Binary(bytes)) if bytes.is_empty() => return Ok(Self::default()),
            Some(Data::Binary(bytes)) => serde_json::from_slice(bytes).ok(),
            Some(Data::String(text)) => serde_json::from_str(text).ok(),
            Some(Data::Json(value)) => Some(value.clone()),
        };
        let Some(Value::Object(given)) = read else {
            return Err(r#"the event's data must be a JSON object, such as {"sleep": "1s"}"#.into());
        };
        let mut work = Self::default();
        for (name, value) in &given {
            work.take(name, value)?;
        }
        Ok(work)
    }

    fn take(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let (place, most_s) = match name {
            "sleep" => (&mut self.sleep, 20),
            "burn" => (&mut self.burn, 5),
            _ => return Err(format!("there is no parameter {name:?}; known are sleep and burn")),
        };
        let found = value.as_str().and_then(duration).filter(|found| *found <= Duration::from_secs(most_s));
        let found = found.ok_or_else(|| {
            format!("{name} must be from 0s to {most_s}s, such as 20ms or 1.5s, not {value}")
        })?;
        match place.replace(found) {
            None => Ok(()),
            Some(_) => Err(format!("{name} is given twice; once is allowed")),
        }
    }

    /// Sleeps, then burns; returns how long each was.
    pub async fn carry_out(&self) -> (Duration, Duration) {
        let mut slept = Duration::ZERO;
        if let Some(most) = self.sleep.filter(|most| !most.is_zero()) {
            let began = Instant::now();
            sleep(most).await;
            slept = began.elapsed();
        }
        let burned = self.burn.filter(|most| !most.is_zero()).map_or(Duration::ZERO, burn);
        (slept, burned)
    }
}

/// A number with at most six decimals, and `ms` or `s`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit_s) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number =
        |part: &str| (1..=DECIMALS).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return None;
    }
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * unit_s))
}

/// Computes until this thread has used so much processor time; nobody else is answered meanwhile, with one worker.
fn burn(most: Duration) -> Duration {
    let (began, mut state) = (thread_time(), 1u64);
    loop {
        for _ in 0..4096 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
        let used = thread_time().saturating_sub(began);
        if used >= most {
            return used;
        }
    }
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
