// Package netlab builds small networks of hosts on one Linux machine, for tests of real processes. A host is a network
// namespace with one address. Links between hosts have delay, jitter, loss and bandwidth in each direction, and can be
// cut and healed.
//
//	lab := netlab.New(t) // skips loudly where namespaces are refused; closed by the test
//	eu, us := lab.Host("eu-1"), lab.Host("us-1")
//	lab.Link(eu, us, netlab.Path{Delay: 75 * time.Millisecond, Jitter: 5 * time.Millisecond, Bandwidth: 100e6})
//	server := us.Command(ctx, "bin/spate-agent", "--coordinator", eu.Addr(7700))
//	lab.Partition(eu, us)
//	lab.Heal(eu, us)
//
// There is no bridge, no veth and no packet filter. Each namespace has one TUN device; the test's own process carries
// packets between the devices, late or not at all. Nothing exists outside the test's process that could be left behind:
// if it is killed, its file descriptors are closed, devices and namespaces end with them, and the kernel kills the
// processes that were started in them. Existing interfaces and namespaces are never touched.
//
// The package needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and /dev/net/tun. It carries IPv4 only, some 100,000 packets
// a second, and does not show what a kernel's network can do. Only tests call it.
package netlab
