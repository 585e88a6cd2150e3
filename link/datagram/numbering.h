// How the kernel numbers the IPv4 packets of a UDP socket. The ICRC covers this identification and
// is made before the kernel writes it, so the UDP datagram link takes it for granted: 0 for a
// packet that leaves alone, 0, 1, 2 and so on for those of one message (UDP_SEGMENT). Here that is
// tried: a filter at a socket, which takes no privilege, sees the IP header that the socket does
// not show.
#pragma once

enum datagram_numbering {
    DATAGRAM_NUMBERING_UNKNOWN, // it cannot be tried here
    DATAGRAM_NUMBERED,          // as the ICRC needs it
    DATAGRAM_NUMBERED_SINGLY,   // ... where each packet leaves alone
    DATAGRAM_NUMBERED_OTHERWISE,
};

// Of what leaves from this socket of IPv4, to 127.0.0.1.
enum datagram_numbering datagram_numbering_of(int fd);

// Of the sockets that the link sends with.
enum datagram_numbering datagram_numbering_find(void);
