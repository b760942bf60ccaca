"""Faults that only a power cut, or a sync that fails, brings to light."""

from tests.mutants import Mutant

_CUTS = ("tests/crash/test_power_cuts.py",)
_OLD_FILES = ("tests/unit/store/test_old_files.py",)
_LOG = "regulus/store/commit_log.py"
_FILE = "regulus/store/mapped_file.py"
_FILES = "regulus/store/mapped_file_queue.py"
_QUEUE = "regulus/store/consume_queue.py"
_STORE = "regulus/store/file_message_store.py"
_INDEX = "regulus/store/index.py"
_OLD = "regulus/store/old_files.py"
_DISK = "regulus/store/disk.py"

MUTANTS = [
    # --- the log -----------------------------------------------------------------------------------------------------
    Mutant(name="a flush vouches for what was appended meanwhile", path=_LOG,
           old="self.flushed_offset = max(end, self.flushed_offset)",
           new="self.flushed_offset = max(self.end, self.flushed_offset)", tests=_CUTS),
    Mutant(name="a file's flush vouches for what was appended meanwhile", path=_FILE,
           old="disk.sync_range(self.path, mapping, self.flushed_position, wrote)\n"
               "            self.flushed_position = wrote",
           new="disk.sync_range(self.path, mapping, self.flushed_position, wrote)\n"
               "            self.flushed_position = self.wrote_position", tests=_CUTS),
    Mutant(name="after a roll only the newest file is synced", path=_LOG,
           old="return found[::-1]", new="return found[:1]", tests=_CUTS),
    Mutant(name="the name of a new file of the log is not synced", path=_LOG,
           old="        if new:\n            disk.sync_directory(self.files.directory)\n", new="", tests=_CUTS),
    Mutant(name="the name of the log's folder is not synced", path=_STORE,
           old="        disk.make_directory(self.config.commit_log_directory)\n", new="", tests=_CUTS),
    Mutant(name="a file made ahead has its length on disk before the one before it", path=_LOG,
           old="            self._sync_names([made])\n",
           new="            disk.sync_data(made.path)\n            self._sync_names([made])\n", tests=_CUTS),
    Mutant(name="only one empty file is passed over at the end of the log", path=_FILES,
           old="while found and disk.file_size(", new="if found and disk.file_size(", tests=_CUTS),
    Mutant(name="after a failed sync of the log the next one counts", path=_LOG,
           old="self._flush_fault = str(error)", new="pass", tests=_CUTS),
    Mutant(name="answers leave before their messages are on disk", path="regulus/server/request_server.py",
           old="            taker = held\n", new="            taker = parts\n", tests=_CUTS),
    # --- queues and checkpoint ---------------------------------------------------------------------------------------
    Mutant(name="a queue's flush vouches for what was put meanwhile", path=_FILE,
           old="self._sync(self.flushed_position, wrote)\n            self.flushed_position = wrote",
           new="self._sync(self.flushed_position, wrote)\n            self.flushed_position = self.wrote_position",
           tests=_CUTS),
    Mutant(name="the checkpoint moves after a partial flush", path=_STORE,
           old="        if not least_pages:\n            self._checkpoint",
           new="        if True:\n            self._checkpoint",
           tests=_CUTS),
    Mutant(name="the checkpoint passes what was dispatched during the flush", path=_STORE,
           old="self._checkpoint.queues_flushed(store_timestamp)",
           new="self._checkpoint.queues_flushed(self._dispatcher.last_store_timestamp)", tests=_CUTS),
    Mutant(name="the mark speaks of what was dispatched during the flush", path=_STORE,
           old="self._synced_record = dispatched_record",
           new="self._synced_record = self._dispatcher.last_physical_offset", tests=_CUTS),
    Mutant(name="a failed flush leaves queues unmarked", path=_STORE,
           old="            self._dispatcher.mark_dirty(queues)\n", new="", tests=_CUTS),
    Mutant(name="what a failed sync lost is not written again", path=_FILE,
           old="if self.is_doubtful:", new="if False:", tests=_CUTS),
    Mutant(name="the names of new queue files are not synced", path=_QUEUE,
           old="return [file for file in files if file.is_new]", new="return []", tests=_CUTS),
    Mutant(name="the names of new topics' folders are not synced", path=_STORE,
           old="*queue.files.directory.parents[:3]", new="*queue.files.directory.parents[:1]", tests=_CUTS),
    Mutant(name="a name whose sync failed is not synced again", path=_STORE,
           old="                new += files\n",
           new="                new += files\n                for file in files:\n"
               "                    file.is_new = False\n",
           tests=_CUTS),
    # --- the index ---------------------------------------------------------------------------------------------------
    Mutant(name="the name of a full index file is not synced", path=_INDEX,
           old="            disk.sync_directory(self._directory)\n            index_file", new="            index_file",
           tests=_CUTS),
    Mutant(name="of an index file whose sync failed a part is written again", path=_INDEX,
           old="index_file.file.flush_whole()", new="index_file.file.flush()", tests=_CUTS),
    Mutant(name="index files that were not synced are taken up after a power cut", path=_INDEX,
           old="is_lost = size == 0 or is_beyond or", new="is_lost = size == 0 or", tests=_CUTS),
    Mutant(name="what lacks in the index is not looked for", path=_STORE,
           old="complete_to = min(complete_to, self._index.last_update[0] - 1)", new="pass", tests=_CUTS),
    Mutant(name="rollbacks are indexed", path="regulus/store/dispatch.py",
           old="is None and transaction != _TRANSACTION_ROLLBACK:", new="is None:",
           tests=("tests/unit/store/test_dispatch.py",)),
    # --- start and stop ----------------------------------------------------------------------------------------------
    Mutant(name="what a killed process left is not brought to disk", path=_STORE,
           old="            self._sync_what_was_kept()\n", new="            pass\n", tests=_CUTS),
    Mutant(name="`abort` goes before the queues are flushed", path=_STORE,
           old="        failures: list[StoreError] = []\n",
           new="        failures: list[StoreError] = []\n        disk.remove_file(self.config.root / \"abort\")\n",
           tests=_CUTS),
    Mutant(name="`abort` goes while something is undispatched", path=_STORE,
           old="if not failures and self.dispatch_behind_bytes() == 0 and", new="if not failures and", tests=_CUTS),
    Mutant(name="a start that was refused leaves `abort` behind", path=_STORE,
           old="                self._mark_as(left)\n", new="                pass\n",
           tests=("tests/unit/store/test_recovery.py",)),
    # --- the disk ----------------------------------------------------------------------------------------------------
    Mutant(name="no fdatasync", path=_DISK, old="os.fdatasync(descriptor)", new="pass", tests=_CUTS),
    Mutant(name="no msync", path=_DISK,
           old="if _libc.msync(_address(mapping) + start, end - start, _MS_SYNC) != 0:", new="if False:", tests=_CUTS),
    Mutant(name="msync of one page", path=_DISK,
           old="_libc.msync(_address(mapping) + start, end - start, _MS_SYNC)",
           new="_libc.msync(_address(mapping) + start, PAGE_SIZE, _MS_SYNC)", tests=_CUTS),
    Mutant(name="no sync of a directory", path=_DISK,
           old="os.O_DIRECTORY) as descriptor:\n        os.fsync(descriptor)\n",
           new="os.O_DIRECTORY) as descriptor:\n        pass\n", tests=_CUTS),
    Mutant(name="no sync before a rename", path=_DISK,
           old="            os.fsync(descriptor)\n            if backup", new="            if backup", tests=_CUTS),
    Mutant(name="no sync of the directory after a rename", path=_DISK,
           old="            os.close(descriptor)\n        sync_directory(path.parent)\n\n\ndef _link",
           new="            os.close(descriptor)\n\n\ndef _link", tests=_CUTS),
    Mutant(name="no sync of a new folder's name", path=_DISK,
           old="        if is_durable:\n            sync_directory(path.parent)\n", new="", tests=_CUTS),
    Mutant(name="no sync of the file system", path=_DISK,
           old="if _libc.syncfs(descriptor) != 0:", new="if False:", tests=_CUTS),
    # --- deletion ----------------------------------------------------------------------------------------------------
    Mutant(name="what is undispatched counts as settled for deletion", path=_OLD,
           old="min(self._log.flushed_offset, self._dispatcher.position)", new="self._log.flushed_offset",
           tests=_OLD_FILES),
    Mutant(name="what is not on disk counts as settled for deletion", path=_OLD,
           old="min(self._log.flushed_offset, self._dispatcher.position)", new="self._dispatcher.position",
           tests=_OLD_FILES),
    Mutant(name="an index file that holds the log's first record is taken", path=_OLD,
           old="files[0].end_physical_offset < self._log.start", new="files[0].end_physical_offset <= self._log.start",
           tests=_OLD_FILES),
    Mutant(name="files that were deleted are held", path=_FILE, old="            self._pool.drop(self)\n", new="",
           tests=("tests/unit/store/test_mapped_file.py",)),
]
