// What commands see of this host, apart from their slot.

/** Folders and links of a Linux system that lead to its programs. */
export const systemFolders: readonly string[] = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** What programs of the host read, and what says nothing about the host. */
export const systemFiles: readonly string[] = [
  '/etc/alternatives',
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/etc/mime.types',
  '/etc/pki/tls/certs',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
];

/** With the network of the host. */
export const networkFiles: readonly string[] = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf'];
