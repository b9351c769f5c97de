PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE clock (
        only INTEGER PRIMARY KEY CHECK (only = 0),
        wall REAL NOT NULL,
        steady REAL NOT NULL,
        boot_id TEXT NOT NULL
    ) STRICT;
INSERT INTO "clock" VALUES(0,1800000000.0,1000.0,'this boot');
CREATE TABLE decided (target INTEGER PRIMARY KEY, time REAL NOT NULL) STRICT;
INSERT INTO "decided" VALUES(1,1800000105.7);
INSERT INTO "decided" VALUES(2,1800000181.2);
INSERT INTO "decided" VALUES(3,1800000302.0);
CREATE TABLE histories (target INTEGER PRIMARY KEY, history TEXT NOT NULL) STRICT;
INSERT INTO "histories" VALUES(1,'{"recommendations": [], "desired_replicas": 7, "last_scale_time": 1800000105.7, "zeroed_by_us": false, "pending": null, "contention": [7, 1, [1800000105.7], 0], "unobserved": false, "gaps": [], "unseen": null, "controller": "", "conditions": [["AbleToScale", "True", "Ready", "after 7", 1800000000.0]], "scale_ups": [[1, 1800000000.0, true, null], [7, 1800000105.7, false, null]], "scale_downs": [[7, 1800000105.7, false, null]]}');
INSERT INTO "histories" VALUES(2,'{"recommendations": [], "desired_replicas": 12, "last_scale_time": 1800000181.2, "zeroed_by_us": true, "pending": [12, 13, 1800000181.2, "12"], "contention": [12, 1, [1800000181.2], 0], "unobserved": true, "gaps": [], "unseen": null, "controller": "", "conditions": [["AbleToScale", "True", "Ready", "after 12", 1800000000.0]], "scale_ups": [[1, 1800000000.0, true, null], [12, 1800000181.2, false, null]], "scale_downs": [[12, 1800000181.2, true, null]]}');
INSERT INTO "histories" VALUES(3,'{"recommendations": [], "desired_replicas": 4, "last_scale_time": 1799999980.0, "zeroed_by_us": true, "pending": [4, 5, 1799999998.5, "8812"], "contention": [4, -2, [1799999910.0, 1799999970.0], 17], "unobserved": true, "gaps": [["queue", "", 1799999955.0, 0.0, true, []], ["cpu", "web-0", null, 1800200000.0, false, [[1799999985.0, 15.0], [1800000000.0, 7.5]]]], "unseen": 1799996400.0, "controller": "a ScaledObject \ud800", "conditions": [["AbleToScale", "True", "ReadyForNewScale", "gr\u00f6\u00dfer \"3\" \ud800", 1799999940.0], ["ScalingActive", "Unknown", "", "", 0.0]], "scale_ups": [[3, 1799999959.5, false, 1799999944.75], [1, 1799999980.0, false, null]], "scale_downs": [[2, 1799999700.0, true, 1799999699.0]]}');
INSERT INTO "histories" VALUES(4,'{}');
CREATE TABLE recommendations (
        slot INTEGER NOT NULL,
        target INTEGER NOT NULL,
        replicas INTEGER NOT NULL,
        time REAL NOT NULL,
        first INTEGER NOT NULL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "recommendations" VALUES(0,1,6,1800000090.6,0);
INSERT INTO "recommendations" VALUES(0,2,11,1800000166.1,0);
INSERT INTO "recommendations" VALUES(1,1,7,1800000105.7,0);
INSERT INTO "recommendations" VALUES(1,2,12,1800000181.2,0);
INSERT INTO "recommendations" VALUES(2,1,3,1800000045.3,0);
INSERT INTO "recommendations" VALUES(2,2,8,1800000120.8,0);
INSERT INTO "recommendations" VALUES(3,1,4,1800000060.4,0);
INSERT INTO "recommendations" VALUES(3,2,9,1800000135.9,0);
INSERT INTO "recommendations" VALUES(4,1,5,1800000075.5,0);
INSERT INTO "recommendations" VALUES(4,2,10,1800000151.0,0);
CREATE TABLE targets (target INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO "targets" VALUES(1,'shop/Deployment/web');
INSERT INTO "targets" VALUES(2,'shop/StatefulSet.example.com/cache');
INSERT INTO "targets" VALUES(3,'shop/Deployment/full');
INSERT INTO "targets" VALUES(4,'shop/Deployment/new');
COMMIT;
