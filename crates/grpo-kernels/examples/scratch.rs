//! scratch
use burn::tensor::*;
use std::time::Instant;
fn hw()->String{ std::fs::read_to_string("/proc/self/status").unwrap().lines().filter(|l|l.starts_with("VmHWM")||l.starts_with("VmRSS")).map(|l|l.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()/1024.).map(|x|format!("{x:.0} ")).collect()}
fn main(){
 let d=Device::flex(); let (c,h,v)=(256,576,49152);
 let x=Tensor::<2>::random([c,h],Distribution::Normal(0.,1.),&d);
 let e=Tensor::<2>::random([c,v],Distribution::Normal(0.,1.),&d);
 println!("start {}",hw());
 for _ in 0..3 {
 let t=Instant::now(); let q=e.clone().transpose().matmul(x.clone()); println!("dw {:?} {}",t.elapsed(),hw());
 let q2=e.clone().transpose().matmul(x.clone()); println!("{}",hw());
 let t=Instant::now(); let _=q+q2; println!("add {:?} {}",t.elapsed(),hw());
 let t=Instant::now(); let q=x.clone().transpose().matmul(e.clone()); println!("dwT {:?} {}",t.elapsed(),hw());
 let t=Instant::now(); let q=Tensor::cat(vec![q.transpose()],0); println!("cat {:?} {}",t.elapsed(),hw());
 let t=Instant::now(); let q=x.clone().transpose().matmul(e.clone()).transpose()*1.0; println!("dwT*1 {:?} {}",t.elapsed(),hw());
 drop(q);
 let xt:Tensor<2>=Tensor::cat(vec![x.clone().transpose(),x.clone().transpose()],1);
 let t=Instant::now(); let q=e.clone().transpose().matmul(xt.clone().slice([0..h,0..c]).transpose()); println!("dw x strided {:?} {}",t.elapsed(),hw());
 }
}
