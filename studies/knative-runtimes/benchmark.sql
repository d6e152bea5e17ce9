-- The original's tables, as views in an exported database:
--   towtank export RESULTS --sqlite benchmark.db && sqlite3 benchmark.db < studies/knative-runtimes/benchmark.sql
-- Beside them are all of Towtank's own, `requests` among them. Times are those of the run's clock.
DROP VIEW IF EXISTS request;
CREATE VIEW request AS
SELECT run_id, treatment_id, target, instance, scheduled_us / 1e6 AS t_s, status, outcome, cold,
       dns_us / 1e3 AS dns_ms, ttfb_us / 1e3 AS ttfb_ms, total_us / 1e3 AS total_ms
FROM requests;

DROP VIEW IF EXISTS node_metrics;
CREATE VIEW node_metrics AS
SELECT run_id, treatment_id, t_us / 1e6 AS t_s, substr(instance, 6) AS node,
       max(CASE WHEN metric = 'cpu_cores' THEN value END) AS cpu_cores,
       max(CASE WHEN metric = 'memory_bytes' THEN value END) AS memory_bytes
FROM samples
WHERE instance LIKE 'node/%' AND metric IN ('cpu_cores', 'memory_bytes')
GROUP BY run_id, treatment_id, t_us, instance;

DROP VIEW IF EXISTS pod_metrics;
CREATE VIEW pod_metrics AS
SELECT run_id, treatment_id, t_us / 1e6 AS t_s, instance AS pod,
       max(CASE WHEN metric = 'cpu_cores' THEN value END) AS cpu_cores,
       max(CASE WHEN metric = 'memory_bytes' THEN value END) AS memory_bytes
FROM samples
WHERE instance NOT LIKE 'node/%' AND instance <> '' AND metric IN ('cpu_cores', 'memory_bytes')
GROUP BY run_id, treatment_id, t_us, instance;
