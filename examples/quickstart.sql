-- Tables also where the output goes to a file or a pipe.
.mode table
-- Tidegate in two minutes: a wide partition an airport, a row an hour.
CREATE TABLE IF NOT EXISTS weather (
    origin text, time_hour timestamp,
    year int, month int, day int, hour int,
    temp double, dewp double, humid double,
    wind_dir int, wind_speed double, wind_gust double,
    precip double, pressure double, visib double,
    PRIMARY KEY ((origin), time_hour)
) WITH CLUSTERING ORDER BY (time_hour ASC)
  AND comment = 'hourly weather of three airports, 2013';

COPY weather FROM 'examples/data/weather.csv'
WITH (FORMAT csv, HEADER true, NULL 'NA');

-- Write the memtables to SSTables, so that reads go through the cache.
FLUSH weather;

-- A point read: one partition, one row.
SELECT origin, time_hour, temp, humid, wind_speed FROM weather
WHERE origin = 'JFK' AND time_hour = '2013-07-04T16:00:00Z';

-- A forward slice of one partition.
SELECT time_hour, temp, precip FROM weather
WHERE origin = 'JFK' AND time_hour >= '2013-12-24T00:00:00Z'
  AND time_hour < '2013-12-24T06:00:00Z'
ORDER BY time_hour;

-- A reversed page: the newest ten rows, read backwards, without a sort.
EXPLAIN SELECT time_hour, temp, wind_speed FROM weather
WHERE origin = 'EWR' ORDER BY time_hour DESC LIMIT 10;

SELECT time_hour, temp, wind_speed FROM weather
WHERE origin = 'EWR' ORDER BY time_hour DESC LIMIT 10;

-- An aggregate over everything: one stream a shard.
SELECT origin, count(*) AS hours, round(avg(temp), 2) AS mean_temp,
       max(wind_gust) AS max_gust
FROM weather GROUP BY origin ORDER BY origin;

-- A join with another table.
CREATE TABLE IF NOT EXISTS airport (
    code text PRIMARY KEY, name text, latitude double, longitude double
);
INSERT INTO airport (code, name, latitude, longitude) VALUES
    ('EWR', 'Newark Liberty', 40.6925, -74.1687),
    ('JFK', 'John F. Kennedy', 40.6398, -73.7789),
    ('LGA', 'LaGuardia', 40.7772, -73.8726);

SELECT a.name, count(*) AS freezing_hours, round(min(w.temp), 2) AS low
FROM weather w JOIN airport a ON a.code = w.origin
WHERE w.temp < 32 GROUP BY a.name ORDER BY freezing_hours DESC;

-- Policies decide what the cache keeps. Load one as a WebAssembly
-- component into the running engine, give the cache less room than the
-- data needs, and look at it work.
ALTER CACHE SET CAPACITY = '128 KiB';
CREATE POLICY IF NOT EXISTS sieve FROM 'plugins/dist/sieve.wasm';
ALTER CACHE SET POLICY = sieve;

SELECT count(*) AS rows, round(avg(pressure), 2) AS mean_pressure
FROM weather
WHERE origin IN ('EWR', 'JFK', 'LGA')
  AND time_hour < '2013-03-01T00:00:00Z';
SELECT time_hour, temp FROM weather
WHERE origin = 'LGA' ORDER BY time_hour DESC LIMIT 3;
SELECT time_hour, temp FROM weather
WHERE origin = 'LGA' ORDER BY time_hour DESC LIMIT 3;
SHOW POLICIES;

-- Replace it by another; nothing is reopened, nothing is lost.
CREATE POLICY IF NOT EXISTS lru_wasm FROM 'plugins/dist/lru.wasm';
ALTER CACHE SET POLICY = lru_wasm;
SELECT time_hour, temp FROM weather
WHERE origin = 'JFK' ORDER BY time_hour DESC LIMIT 3;
SHOW POLICIES;
