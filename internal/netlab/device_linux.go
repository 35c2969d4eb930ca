package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	device     = "wan"
	prefixBits = 16
)

// openDevice makes the TUN device of a host in the calling thread's namespace, sets its address, and enables it and
// loopback.
func openDevice(ip netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	if err := configure(fd, ip); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), device), nil
}

// configure sets the name and address of the device with descriptor fd.
func configure(fd int, ip netip.Addr) error {
	create, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	create.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, create); err != nil {
		return fmt.Errorf("new TUN device: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	address, mask := ip.As4(), [4]byte{255, 255}
	err = errors.Join(
		set(socket, unix.SIOCSIFFLAGS, "lo", func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }),
		set(socket, unix.SIOCSIFADDR, device, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) }),
		set(socket, unix.SIOCSIFNETMASK, device, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask[:]) }),
		set(socket, unix.SIOCSIFMTU, device, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }),
		set(socket, unix.SIOCSIFFLAGS, device, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }),
	)
	return errors.Join(err, unix.Close(socket))
}

// set changes one property of an interface.
func set(socket int, property uint, name string, value func(*unix.Ifreq) error) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := value(r); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, property, r); err != nil {
		return fmt.Errorf("configure %s (ioctl %#x): %w", name, property, err)
	}
	return nil
}
