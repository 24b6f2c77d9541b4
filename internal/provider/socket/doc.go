// Package socket opens Unix sockets that nobody else can stand in for or reach
// too early (design: kms-service, socket).
//
// What may never happen here:
//
//   - the path exists with a wider mode or another group than configured, even
//     for a moment: a socket is bound under a temporary name, given its group
//     and mode there, and only then renamed into place;
//   - something is removed that was not checked: a stale socket and, on Close,
//     our own are removed by inode, and anything else is left alone;
//   - a path that another process serves is taken over.
//
// Everything happens relative to the open, checked directory, so a directory
// that is swapped meanwhile changes nothing. The package needs a mounted /proc
// and a file system that can rename without replacing; tmpfs, ext4 and xfs can.
//
// The serve package calls it for the KMS socket and for the report socket.
package socket
