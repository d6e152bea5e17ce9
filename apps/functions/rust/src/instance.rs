//! One instance of the function: made once, asked by every request.

use crate::event::{event_of, response_of};
use crate::work::Work;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, web};
use cloudevents::event::SpecVersion;
use cloudevents::{AttributesReader, EventBuilder, EventBuilderV10};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use uuid::Uuid;

/// What is the same for all requests.
pub struct Instance {
    name: String,
    began: Instant,
    was_asked: AtomicBool,
}

#[derive(Serialize)]
struct Answer<'a> {
    runtime: &'static str,
    instance: &'a str,
    cold: bool,
    uptime_s: f64,
    slept_s: f64,
    burned_s: f64,
}

impl Instance {
    /// Named by the environment, by its pod, or by chance.
    pub fn from_environment() -> Self {
        let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let pod = || given("HOSTNAME").filter(|_| given("KUBERNETES_SERVICE_HOST").is_some());
        let random = || format!("rust-{}", &Uuid::new_v4().simple().to_string()[..16]);
        Self {
            name: given("INSTANCE").or_else(pod).unwrap_or_else(random),
            began: Instant::now(),
            was_asked: AtomicBool::new(false),
        }
    }

    fn is_cold(&self) -> bool {
        !self.was_asked.swap(true, Ordering::Relaxed)
    }

    /// The beginning of a response, with the headers that all have.
    fn told(&self, status: StatusCode, cold: bool) -> HttpResponseBuilder {
        let mut response = HttpResponse::build(status);
        response.insert_header(("x-instance", self.name.as_str()));
        response.insert_header(("x-cold-start", if cold { "true" } else { "false" }));
        response
    }

    fn refused(&self, status: StatusCode, cold: bool, why: &str) -> HttpResponse {
        self.told(status, cold).json(serde_json::json!({ "error": why }))
    }

    async fn carry_out(&self, asked: &Work, cold: bool) -> Answer<'_> {
        let (slept, burned) = asked.carry_out().await;
        Answer {
            runtime: "rust",
            instance: &self.name,
            cold,
            uptime_s: self.began.elapsed().as_secs_f64(),
            slept_s: slept.as_secs_f64(),
            burned_s: burned.as_secs_f64(),
        }
    }
}

/// A request that is no event; its body is read and not looked at.
pub async fn answer_plain(
    request: HttpRequest,
    _body: web::Bytes,
    instance: web::Data<Instance>,
) -> HttpResponse {
    let cold = instance.is_cold();
    match Work::of_query(request.query_string()) {
        Ok(asked) => instance.told(StatusCode::OK, cold).json(instance.carry_out(&asked, cold).await),
        Err(why) => instance.refused(StatusCode::BAD_REQUEST, cold, &why),
    }
}

/// A CloudEvent, answered by one.
pub async fn answer_event(
    request: HttpRequest,
    body: web::Bytes,
    instance: web::Data<Instance>,
) -> HttpResponse {
    let cold = instance.is_cold();
    let event = match event_of(request.headers(), &body) {
        Ok(event) => event,
        Err(wrong) => {
            return instance.refused(StatusCode::BAD_REQUEST, cold, &format!("not a CloudEvent: {wrong}"));
        }
    };
    if event.specversion() != SpecVersion::V10 {
        let why = format!("CloudEvents of version 1.0 are answered, not {}", event.specversion());
        return instance.refused(StatusCode::BAD_REQUEST, cold, &why);
    }
    let asked = match Work::of_data(event.data()) {
        Ok(asked) => asked,
        Err(why) => return instance.refused(StatusCode::BAD_REQUEST, cold, &why),
    };
    let answer = instance.carry_out(&asked, cold).await;
    let told = EventBuilderV10::new()
        .id(Uuid::new_v4().to_string())
        .ty("towtank.function.answer")
        .source("/functions/rust")
        .data("application/json", serde_json::json!(answer))
        .build();
    match told {
        Ok(told) => response_of(told, instance.told(StatusCode::OK, cold)),
        Err(wrong) => instance.refused(StatusCode::INTERNAL_SERVER_ERROR, cold, &wrong.to_string()),
    }
}
