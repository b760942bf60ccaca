"""The position of each part of a message in the commit log, for everything that reads or writes records.

Numbers are big-endian. `h` and `g` are 8 for an IPv4 host, 20 for IPv6.

    offset        size  field
         0           4  total_size                    of the whole record
         4           4  magic                         V1, or V2 for a topic of more than 127 bytes
         8           4  body_crc                      CRC-32 of the stored body & 0x7FFFFFFF
        12           4  queue_id
        16           4  flag                          the user's
        20           8  queue_offset                  message number in its queue
        28           8  physical_offset               where this record starts in the log
        36           4  sys_flag                      0x10: born host is IPv6, 0x20: store host is IPv6
        40           8  born_timestamp
        48           h  born_host                     address, port i4
        48 + h       8  store_timestamp
        56 + h       g  store_host                    address, port i4
        56 + h + g   4  reconsume_times
        60 + h + g   8  prepared_transaction_offset
        68 + h + g   4  body_length
        72 + h + g   n  body
                1 or 2  topic_length                  V1: one byte, V2: two
                     t  topic                         UTF-8
                     2  properties_length
                     p  properties                    UTF-8, `name 0x01 value 0x02 ...`

The end of a log file that is too short for the next record is a blank: its size (4), MAGIC_BLANK (4), anything.

As with big_endian: interpreted code uses the numbers of this module, and modules that cimport it the constants of the
.pxd.

Source: MessageDecoder.MESSAGE_MAGIC_CODE, MessageDecoder.BLANK_MAGIC_CODE, MessageVersion, CommitLog.calMsgLength.
"""

# Offsets from the start of the record.
TOTAL_SIZE = 0
MAGIC = 4
BODY_CRC = 8
QUEUE_ID = 12
FLAG = 16
QUEUE_OFFSET = 20
PHYSICAL_OFFSET = 28
SYS_FLAG = 36
BORN_TIMESTAMP = 40
BORN_HOST = 48

# Offsets from the end of the born host.
STORE_TIMESTAMP = 0
STORE_HOST = 8

# Offsets from the end of the store host.
RECONSUME_TIMES = 0
PREPARED_TRANSACTION_OFFSET = 4
BODY_LENGTH = 12
BODY = 16

HOST_V4_SIZE = 8
HOST_V6_SIZE = 20
PROPERTIES_LENGTH_SIZE = 2
BODY_START_V4 = 88
"""Offset of the body from the start of a record with IPv4 hosts."""
FIXED_SIZE_V1 = 91
"""Bytes of a record with IPv4 hosts without body, topic and properties; one more in V2, 12 more for an IPv6 host."""
BLANK_SIZE_MIN = 8

MAGIC_V1 = 0xDAA320A7 - 0x100000000
MAGIC_V2 = 0xDAA320AB - 0x100000000
MAGIC_BLANK = 0xCBD43194 - 0x100000000
