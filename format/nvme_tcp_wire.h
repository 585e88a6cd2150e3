// NVMe/TCP: PDUs. Offsets are in octets, integers little-endian. From the specification NVM Express
// over Fabrics 1.1, section 7.4.
#pragma once

#include <stdint.h>

// Every PDU: a header, its digest, padding, data, their digest.
enum nvme_tcp_common_offset {
    NVME_TCP_OFF_TYPE = 0,
    NVME_TCP_OFF_FLAGS = 1,
    NVME_TCP_OFF_HLEN = 2, // of the header
    NVME_TCP_OFF_PDO = 3,  // where the data begin
    NVME_TCP_OFF_PLEN = 4, // of everything
    NVME_TCP_COMMON_LEN = 8,
};

enum nvme_tcp_type {
    NVME_TCP_IC_REQ = 0x00,
    NVME_TCP_IC_RESP = 0x01,
    NVME_TCP_H2C_TERM = 0x02,
    NVME_TCP_C2H_TERM = 0x03,
    NVME_TCP_CAPSULE_CMD = 0x04,
    NVME_TCP_CAPSULE_RESP = 0x05,
    NVME_TCP_H2C_DATA = 0x06,
    NVME_TCP_C2H_DATA = 0x07,
    NVME_TCP_R2T = 0x09,
};

enum nvme_tcp_flag {
    NVME_TCP_HDGST = 1 << 0,
    NVME_TCP_DDGST = 1 << 1,
    NVME_TCP_LAST_PDU = 1 << 2,
    NVME_TCP_SUCCESS = 1 << 3, // of C2HData: no CapsuleResp follows
};

// ICReq and ICResp.
enum nvme_tcp_ic_offset {
    NVME_TCP_IC_OFF_PFV = 8,
    NVME_TCP_IC_OFF_PDA = 10, // the sender's wish for data it receives: 4-octet units, less 1
    NVME_TCP_IC_OFF_DIGEST = 11,
    NVME_TCP_IC_OFF_MAXR2T = 12,  // ICReq: R2Ts outstanding of a command, less 1
    NVME_TCP_IC_OFF_MAXDATA = 12, // ICResp: octets of an H2CData PDU
    NVME_TCP_IC_LEN = 128,
};

enum { NVME_TCP_IC_HDGST = 1 << 0, NVME_TCP_IC_DDGST = 1 << 1, NVME_TCP_PDA_MAX = 31 };

// CapsuleCmd and CapsuleResp: the capsule behind the common header.
enum {
    NVME_TCP_OFF_CAPSULE = 8,
    NVME_TCP_CMD_HLEN = 72,
    NVME_TCP_RESP_HLEN = 24,
};

// H2CData, C2HData and R2T.
enum nvme_tcp_data_offset {
    NVME_TCP_DATA_OFF_CCCID = 8, // the command
    NVME_TCP_DATA_OFF_TTAG = 10, // H2CData, R2T: the controller's name for the transfer
    NVME_TCP_DATA_OFF_DATAO = 12,
    NVME_TCP_DATA_OFF_DATAL = 16,
    NVME_TCP_DATA_HLEN = 24,
};

// H2CTermReq and C2HTermReq: why, and the header of the PDU that is at fault.
enum nvme_tcp_term_offset {
    NVME_TCP_TERM_OFF_FES = 8,
    NVME_TCP_TERM_OFF_FEI = 10,
    NVME_TCP_TERM_HLEN = 24,
    NVME_TCP_TERM_MAX_LEN = 152,
};

enum nvme_tcp_fatal {
    NVME_TCP_NO_FAULT = 0,      // not on the wire
    NVME_TCP_INVALID_FIELD = 1, // FEI: which octet of the header
    NVME_TCP_SEQUENCE_ERROR = 2,
    NVME_TCP_HEADER_DIGEST_ERROR = 3, // FEI: the digest that was computed
    NVME_TCP_OUT_OF_RANGE = 4,
    NVME_TCP_LIMIT_EXCEEDED = 5,
    NVME_TCP_UNSUPPORTED = 6, // FEI: which octet
};

enum {
    NVME_TCP_DIGEST_LEN = 4,
    NVME_TCP_IN_CAPSULE_MAX = 8192, // of admin and fabrics commands always
    NVME_TCP_HEADER_MAX = NVME_TCP_IC_LEN,
};
