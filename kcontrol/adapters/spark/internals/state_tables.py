"""The tables of state stores that are open: RocksDB merges them whenever there are some new ones, and Spark makes a snapshot of
them every ten versions, which it copies to the query's directory some time later.

Merging writes nearly all of a store's tables anew where keys change everywhere. Whoever is just copying a checkpoint of them to
another node may ask for some time without it, and for a snapshot of the version that is made next. All of this is about the
driver's JVM: executors elsewhere go on as they do.

A store may only be touched while nobody else is at work in it, or closes it: the class below asks for it as Spark's tasks do.
What it holds it lets go of by itself, unless it is asked again and again.
"""

from __future__ import annotations

import logging
import threading
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.compiled import compiled
from kcontrol.adapters.spark.internals.session import gateway_of
from kcontrol.errors import SparkSettingError

_log = logging.getLogger(__name__)

TABLES_CLASS = "kcontrol.StateTables"
_SOURCE = """
package kcontrol;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateMachine;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.rocksdb.MutableColumnFamilyOptions;
import org.rocksdb.RocksDB;

public class StateTables implements Runnable {
    private static final long LOOK_EVERY_MS = 200L;
    private final WeakHashMap held = new WeakHashMap();
    private long untilNs;
    private Thread thread;

    public synchronized int hold(long ms) throws Exception {
        untilNs = System.nanoTime() + ms * 1000000L;
        if (thread == null) {
            thread = new Thread(this, "kcontrol-state-tables");
            thread.setDaemon(true);
            thread.start();
        }
        merge(false);
        return held.size();
    }

    public int takeSnapshots() throws Exception {
        Object[] providers = providers();
        int asked = 0;
        for (int i = 0; i < providers.length; i++) {
            if (providers[i] instanceof RocksDBStateStoreProvider) {
                asked += takeSnapshotOf((RocksDBStateStoreProvider) providers[i]) ? 1 : 0;
            }
        }
        return asked;
    }

    private boolean takeSnapshotOf(RocksDBStateStoreProvider provider) throws Exception {
        Field forced = fieldOf(org.apache.spark.sql.execution.streaming.state.RocksDB.class, "shouldForceSnapshot");
        RocksDBStateMachine machine = machineOf(provider);
        long stamp;
        try {
            stamp = machine.acquireStamp();
        } catch (Exception e) {
            return false;
        }
        try {
            ((AtomicBoolean) forced.get(provider.rocksDB())).set(true);
        } finally {
            machine.releaseStamp(stamp, false);
        }
        return true;
    }

    public void run() {
        while (true) {
            synchronized (this) {
                if (System.nanoTime() - untilNs >= 0L) {
                    merge(true);
                    thread = null;
                    return;
                }
            }
            try {
                Thread.sleep(LOOK_EVERY_MS);
            } catch (InterruptedException e) {
                continue;
            }
        }
    }

    private void merge(boolean merges) {
        Object[] providers;
        try {
            providers = providers();
        } catch (Exception e) {
            return;
        }
        for (int i = 0; i < providers.length; i++) {
            if (providers[i] instanceof RocksDBStateStoreProvider) {
                mergeIn((RocksDBStateStoreProvider) providers[i], merges);
            }
        }
        if (merges) {
            held.clear();
        }
    }

    private void mergeIn(RocksDBStateStoreProvider provider, boolean merges) {
        try {
            Field place = fieldOf(org.apache.spark.sql.execution.streaming.state.RocksDB.class, "db");
            Object seen = place.get(provider.rocksDB());
            if (seen == null || held.containsKey(seen) != merges) {
                return;
            }
            RocksDBStateMachine machine = machineOf(provider);
            long stamp = machine.acquireStamp();
            try {
                RocksDB store = (RocksDB) place.get(provider.rocksDB());
                if (store == seen) {
                    store.setOptions((MutableColumnFamilyOptions)
                        MutableColumnFamilyOptions.builder().setDisableAutoCompactions(!merges).build());
                    held.put(store, Boolean.TRUE);
                }
            } finally {
                machine.releaseStamp(stamp, false);
            }
        } catch (Exception e) {
            return;
        }
    }

    private static RocksDBStateMachine machineOf(RocksDBStateStoreProvider provider) {
        return provider.org$apache$spark$sql$execution$streaming$state$RocksDBStateStoreProvider$$stateMachine();
    }

    private static Object[] providers() throws Exception {
        scala.collection.mutable.HashMap loaded =
            (scala.collection.mutable.HashMap) fieldOf(StateStore$.class, "loadedProviders").get(null);
        ArrayList found = new ArrayList();
        synchronized (loaded) {
            scala.collection.Iterator each = loaded.valuesIterator();
            while (each.hasNext()) {
                found.add(each.next());
            }
        }
        return found.toArray();
    }

    private static Field fieldOf(Class owner, String name) throws Exception {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }
}
"""
_made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""By JVM."""
_making = threading.Lock()


def hold_tables(spark: SparkSession, for_ms: int) -> int:
    """Have no tables merged of the stores that are open, for so long after the newest call; how many stores those are. Waits
    for stores in which a task is at work."""
    return int(_asked(spark, lambda tables: tables.hold(for_ms)) or 0)


def take_snapshots(spark: SparkSession) -> int:
    """Have the next version of each store that is open be a snapshot, and be copied before the task that makes it has ended;
    how many stores those are. Waits for stores in which a task is at work: Spark asks twice while it makes a version."""
    return int(_asked(spark, lambda tables: tables.takeSnapshots()) or 0)


def _asked(spark: SparkSession, ask: Any) -> Any:
    """None: this Spark has other stores, which costs some copying only."""
    try:
        with _making:
            gateway = gateway_of(spark)
            if gateway not in _made:
                _made[gateway] = compiled(spark, TABLES_CLASS, _SOURCE).newInstance()
            tables = _made[gateway]
        return ask(tables)
    except (Py4JError, SparkSettingError) as error:
        _log.info("tables of state are merged as ever: %s", error)
        return None
