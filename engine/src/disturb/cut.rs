//! Cutting a pod, or the machine itself, off the network: a filter on its interfaces drops all that comes and goes.
//!
//! A pod's interfaces are looked up from inside of its network namespace, so that it does not matter how the cluster's network
//! is built. The machine's are those of its default routes, and the one towards whoever asks.
use super::find;
use super::netlink::{Link, Netlink, within};
use super::orders::Id;
use std::net::{IpAddr, Ipv4Addr};

/// Cuts all interfaces of the pod of these containers; their names.
pub fn cut_pod(containers: &[Id]) -> Result<Vec<String>, String> {
    within(find::one_of(containers)?, |network| {
        let links = network.links()?;
        if links.is_empty() {
            return Err("the pod has no interface of its own".into());
        }
        cut(network, &links)
    })
}

/// Undoes it; a pod that is gone has taken its interfaces along.
pub fn mend_pod(containers: &[Id]) -> Result<(), String> {
    find::one_of(containers).map_or(Ok(()), |pid| within(pid, |network| mend(network, &network.links()?)))
}

/// Whether a pod has a network of its own: one that shares the machine's would cut that.
pub fn has_own_network(containers: &[Id]) -> Result<bool, String> {
    let of = |pid: i32| {
        let path = format!("/proc/{pid}/ns/net");
        std::fs::read_link(&path).map_err(|e| format!("{path}: {e}"))
    };
    Ok(of(find::one_of(containers)?)? != of(find::machine())?)
}

/// Cuts the ways of the machine to others.
pub fn cut_machine(names: &[String]) -> Result<Vec<String>, String> {
    within(find::machine(), |network| cut(network, &named(network, names)?))
}

/// Undoes it.
pub fn mend_machine(names: &[String]) -> Result<(), String> {
    within(find::machine(), |network| mend(network, &named(network, names)?))
}

/// Interfaces by which the machine reaches others.
pub fn uplinks(towards: IpAddr) -> Result<Vec<String>, String> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/net/{name}", find::machine()));
    let table = read("route").map_err(|e| format!("the machine's routes cannot be read: {e}"))?;
    let mut found = default_routes_v6(&read("ipv6_route").unwrap_or_default());
    found.extend(routes_v4(&table, towards));
    found.sort();
    found.dedup();
    if found.is_empty() {
        return Err(format!("the machine has no default route, and none to {towards}"));
    }
    Ok(found)
}

fn cut(network: &Netlink, links: &[Link]) -> Result<Vec<String>, String> {
    for (done, link) in links.iter().enumerate() {
        if let Err(error) = network.cut(link) {
            mend(network, &links[..done])?;
            return Err(error);
        }
    }
    Ok(links.iter().map(|link| link.name.clone()).collect())
}

fn mend(network: &Netlink, links: &[Link]) -> Result<(), String> {
    links.iter().try_for_each(|link| network.mend(link))
}

fn named(network: &Netlink, names: &[String]) -> Result<Vec<Link>, String> {
    Ok(network.links()?.into_iter().filter(|link| names.contains(&link.name)).collect())
}

/// Of `/proc/net/route`: those of default routes, and the narrowest to an address. Numbers there are in hexadecimal, and
/// addresses in the order of the network.
fn routes_v4(table: &str, towards: IpAddr) -> Vec<String> {
    let address = |text: &str| Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?.to_ne_bytes()));
    let mut routes = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, to, .., mask, _, _, _] = fields[..] else { continue };
        let (Some(to), Some(mask)) = (address(to), address(mask)) else { continue };
        routes.push((name.to_owned(), u32::from(to), u32::from(mask)));
    }
    let mut found: Vec<String> =
        routes.iter().filter(|(_, _, mask)| *mask == 0).map(|(name, ..)| name.clone()).collect();
    if let IpAddr::V4(address) = towards {
        let address = u32::from(address);
        let fitting = routes.iter().filter(|(_, to, mask)| address & mask == *to);
        found.extend(fitting.max_by_key(|(_, _, mask)| *mask).map(|(name, ..)| name.clone()));
    }
    found
}

/// Of `/proc/net/ipv6_route`: those of default routes; ones that refuse are on `lo`.
fn default_routes_v6(table: &str) -> Vec<String> {
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.len() == 10 && fields[1] == "00" && fields[9] != "lo")
        .filter(|fields| fields[0].bytes().all(|byte| byte == b'0'))
        .map(|fields| fields[9].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    const TABLE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth1\t0000A8C0\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n\
        eth2\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";

    #[test]
    fn the_ways_to_others_are_default_routes_and_the_narrowest_to_an_address() {
        let names = |address: &str| routes_v4(TABLE, address.parse().unwrap());
        assert_eq!(names("192.168.1.7"), ["eth0", "eth2"]);
        assert_eq!(names("192.168.2.7"), ["eth0", "eth1"]);
        assert_eq!(names("8.8.8.8"), ["eth0", "eth0"]);
        assert_eq!(names("fd00::1"), ["eth0"]);
        let zeros = "0".repeat(32);
        let v6 = format!(
            "{zeros} 00 {zeros} 00 {zeros} 00000400 1 0 00000003 eth0\n\
             {zeros} 00 {zeros} 00 {zeros} ffffffff 1 0 00200200 lo\n\
             fe80{} 40 {zeros} 00 {zeros} 00000100 1 0 00000001 eth1\n",
            "0".repeat(28)
        );
        assert_eq!(default_routes_v6(&v6), ["eth0"]);
    }

    /// A process with a network of its own in which `va` and `vb` are one wire; None without the right to make it.
    struct Elsewhere(Child);

    impl Elsewhere {
        fn make() -> Option<Self> {
            let script = "ip link add va type veth peer name vb && ip link set va up && ip link set vb up && echo up && \
                          exec sleep 600";
            let mut child = Command::new("unshare")
                .args(["--net", "sh", "-c", script])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .ok()?;
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take()?), &mut line)
                .ok()?;
            let made = Self(child);
            (line == "up\n").then_some(made)
        }

        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }

        fn tc(&self, words: &[&str]) -> String {
            let pid = self.pid().to_string();
            let told =
                Command::new("nsenter").args(["--net", "--target", &pid, "tc"]).args(words).output().unwrap();
            String::from_utf8_lossy(&told.stdout).into_owned()
        }
    }

    impl Drop for Elsewhere {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn interfaces_are_cut_and_mended_and_those_of_others_left_alone() {
        let Some(elsewhere) = Elsewhere::make() else {
            eprintln!("left out: no right to make a network namespace");
            return;
        };
        let pid = elsewhere.pid();
        let names = within(pid, |network| cut(network, &network.links()?)).unwrap();
        assert_eq!(
            {
                let mut sorted = names.clone();
                sorted.sort();
                sorted
            },
            ["va", "vb"]
        );
        for direction in ["ingress", "egress"] {
            let filters = elsewhere.tc(&["filter", "show", "dev", "va", direction]);
            assert!(filters.contains("direct-action") && filters.contains("6 0 0 2"), "{filters}");
        }
        within(pid, |network| mend(network, &network.links()?)).unwrap();
        assert!(!elsewhere.tc(&["qdisc", "show"]).contains("clsact"));
        within(pid, |network| mend(network, &network.links()?)).expect("nothing to undo is no error");

        elsewhere.tc(&["qdisc", "add", "dev", "vb", "clsact"]);
        let refused = within(pid, |network| cut(network, &network.links()?)).unwrap_err();
        assert!(refused.contains("vb has classifiers (clsact) of somebody else"), "{refused}");
        let left = elsewhere.tc(&["qdisc", "show"]);
        assert_eq!(left.matches("clsact").count(), 1, "ours went, theirs stays: {left}");
        within(pid, |network| mend(network, &network.links()?)).unwrap();
        assert!(elsewhere.tc(&["qdisc", "show"]).contains("clsact"), "what is not ours is not undone");
    }
}
