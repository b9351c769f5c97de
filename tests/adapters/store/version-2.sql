PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE clock (
        only INTEGER PRIMARY KEY CHECK (only = 0),
        wall REAL NOT NULL,
        steady REAL NOT NULL,
        boot_id TEXT NOT NULL
    ) STRICT;
INSERT INTO "clock" VALUES(0,1800000000.0,1000.0,'this boot');
CREATE TABLE conditions (target INTEGER PRIMARY KEY, conditions TEXT NOT NULL) STRICT;
INSERT INTO "conditions" VALUES(1,'[["AbleToScale","True","Ready","after 7",1800000000.0]]');
INSERT INTO "conditions" VALUES(2,'[["AbleToScale","True","Ready","after 12",1800000000.0]]');
INSERT INTO "conditions" VALUES(3,'[["AbleToScale","True","ReadyForNewScale","gr\u00f6\u00dfer \"3\" \ud800",1799999940.0],["ScalingActive","Unknown","","",0.0]]');
CREATE TABLE decided (target INTEGER PRIMARY KEY, time REAL NOT NULL) STRICT;
INSERT INTO "decided" VALUES(1,1800000105.7);
INSERT INTO "decided" VALUES(2,1800000181.2);
INSERT INTO "decided" VALUES(3,1800000302.0);
CREATE TABLE decisions (target INTEGER PRIMARY KEY, decision TEXT NOT NULL) STRICT;
INSERT INTO "decisions" VALUES(1,'["Metrics","ok",3,6,"external metric queue(nil) above target",false,[["external metric queue(nil)",7,null]],[["combine",3,7,"external metric queue(nil) above target"],["stabilize",7,7,"ReadyForNewScale"],["limit",7,6,"ScaleUpLimit"]]]');
INSERT INTO "decisions" VALUES(2,'["Metrics","ok",3,6,"external metric queue(nil) above target",false,[["external metric queue(nil)",12,null]],[["combine",3,12,"external metric queue(nil) above target"],["stabilize",12,12,"ReadyForNewScale"],["limit",12,6,"ScaleUpLimit"]]]');
INSERT INTO "decisions" VALUES(3,'["Metrics","ok",3,6,"external metric queue(nil) above target",false,[["external metric queue(nil)",20,null]],[["combine",3,20,"external metric queue(nil) above target"],["stabilize",20,20,"ReadyForNewScale"],["limit",20,6,"ScaleUpLimit"]]]');
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
CREATE TABLE scale_downs (
        slot INTEGER NOT NULL,
        target INTEGER NOT NULL,
        change INTEGER NOT NULL,
        time REAL NOT NULL,
        outdated INTEGER NOT NULL, earliest REAL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "scale_downs" VALUES(0,1,7,1800000105.7,0,NULL);
INSERT INTO "scale_downs" VALUES(0,2,12,1800000181.2,1,NULL);
INSERT INTO "scale_downs" VALUES(0,3,2,1799999700.0,1,1799999699.0);
CREATE TABLE scale_ups (
        slot INTEGER NOT NULL,
        target INTEGER NOT NULL,
        change INTEGER NOT NULL,
        time REAL NOT NULL,
        outdated INTEGER NOT NULL, earliest REAL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "scale_ups" VALUES(0,1,1,1800000000.0,1,NULL);
INSERT INTO "scale_ups" VALUES(0,2,1,1800000000.0,1,NULL);
INSERT INTO "scale_ups" VALUES(0,3,3,1799999959.5,0,1799999944.75);
INSERT INTO "scale_ups" VALUES(1,1,7,1800000105.7,0,NULL);
INSERT INTO "scale_ups" VALUES(1,2,12,1800000181.2,0,NULL);
INSERT INTO "scale_ups" VALUES(1,3,1,1799999980.0,0,NULL);
CREATE TABLE states (
        target INTEGER PRIMARY KEY,
        has_recommendations INTEGER NOT NULL,
        desired_replicas INTEGER NOT NULL,
        last_scale_time REAL,
        zeroed_by_us INTEGER NOT NULL,
        pending TEXT,
        rivalry TEXT NOT NULL,
        unobserved INTEGER NOT NULL
    , gaps TEXT NOT NULL DEFAULT '[]', unseen REAL, generation INTEGER NOT NULL DEFAULT 0, controller TEXT NOT NULL DEFAULT '""') STRICT;
INSERT INTO "states" VALUES(1,1,7,1800000105.7,0,NULL,'[7,1,[1800000105.7]]',0,'[]',NULL,0,'""');
INSERT INTO "states" VALUES(2,1,12,1800000181.2,1,'[12,13,1800000181.2,"12"]','[12,1,[1800000181.2]]',1,'[]',NULL,0,'""');
INSERT INTO "states" VALUES(3,1,4,1799999980.0,1,'[4,5,1799999998.5,"8812"]','[4,-2,[1799999910.0,1799999970.0]]',1,'[["queue","",1799999955.0,0.0,true,[]],["cpu","web-0",null,1800200000.0,false,[[1799999985.0,15.0],[1800000000.0,7.5]]]]',1799996400.0,17,'"a ScaledObject \ud800"');
CREATE TABLE targets (target INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO "targets" VALUES(1,'shop/Deployment/web');
INSERT INTO "targets" VALUES(2,'shop/StatefulSet.example.com/cache');
INSERT INTO "targets" VALUES(3,'shop/Deployment/full');
INSERT INTO "targets" VALUES(4,'shop/Deployment/new');
COMMIT;
